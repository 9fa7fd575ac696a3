"""Whatever is typed or configured, the answer is a code of the table and never a traceback."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

import pytest
from cli_stub import Api, make_report
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphcheck.cli.main import run
from graphcheck.errors import ExitCode
from graphcheck.suppress import read_comments

_FEW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_CODES = {int(code) for code in ExitCode}
_OPTIONS = (
    *("--input", "--loss", "--num-classes", "--dynamic-batch", "--strict", "--opset"),
    *("--kernel-library", "--select", "--ignore", "--fail-on", "--exit-zero", "--output-format"),
    *("--timeout", "--memory-limit", "--config", "-q", "-v", "--help", "--version", "--json"),
    *("--all", "--op", "--steps", "--lr", "--"),
)
_WORDS = ("check", "validate", "rule", "advisory", "opset", "show", "list", "model.py", "GC301")
_TEXT = st.text(max_size=12).filter(lambda text: "\0" not in text)
_ARGUMENTS = st.lists(
    st.one_of(st.sampled_from(_OPTIONS), st.sampled_from(_WORDS), _TEXT), max_size=7
)


def quiet_run(arguments: list[str]) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    return int(code), out.getvalue() + err.getvalue()


@_FEW
@given(arguments=_ARGUMENTS)
def test_arguments(folder: Path, api: Api, arguments: list[str]) -> None:
    # doctor and `opset generate live` would look at this machine, which takes seconds.
    if "doctor" in arguments or "live" in arguments:
        return
    api.answer = make_report()
    code, text = quiet_run(arguments)
    assert code in _CODES - {ExitCode.INTERNAL}, text
    assert "Traceback" not in text


@_FEW
@given(target=_TEXT)
def test_targets(folder: Path, api: Api, target: str) -> None:
    api.answer = make_report()
    code, text = quiet_run(["check", "--", target])
    assert code in (ExitCode.OK, ExitCode.USAGE), text


_KEYS = ("select", "ignore", "fail-on", "timeout", "input", "steps", "per-module-ignores", "what")
_VALUES = ("1", "-1", "0.5", "nan", "true", "'GC3'", "['GC3']", "[1]", "{}", "{a = ['GC3']}", "'")


@_FEW
@given(
    lines=st.lists(st.tuples(st.sampled_from(_KEYS), st.sampled_from(_VALUES)), max_size=3),
    noise=st.text(max_size=5),
)
def test_configuration(folder: Path, api: Api, lines: list[tuple[str, str]], noise: str) -> None:
    text = "[tool.graphcheck]\n" + "".join(f"{key} = {value}\n" for key, value in lines) + noise
    (folder / "pyproject.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    api.answer = make_report()
    code, told = quiet_run(["model.py"])
    assert code in (ExitCode.OK, ExitCode.USAGE), told
    if code == ExitCode.USAGE:
        assert os.fspath(folder / "pyproject.toml") in told or "fail-on" in told


@settings(max_examples=200, deadline=None)
@given(
    parts=st.lists(
        st.sampled_from(
            [
                "# graphcheck: ignore",
                "[GC301]",
                "\n",
                "x = 1",
                "(",
                ")",
                '"""',
                "'",
                "    ",
                "\\",
                "é",
            ]
        )
    )
)
def test_sources(parts: list[str]) -> None:
    text = "".join(parts)
    for comment in read_comments(text):
        assert 1 <= comment.first <= comment.line <= text.count("\n") + 1


@pytest.mark.parametrize(
    "target", ["a\0b.py", "x" * 5000 + ".py", "x/" * 5000 + "m.py", "\udcff.py", "~", "-"]
)
def test_odd_targets(folder: Path, api: Api, target: str) -> None:
    api.answer = make_report()
    code, _ = quiet_run(["check", "--", target])
    assert code == ExitCode.USAGE
