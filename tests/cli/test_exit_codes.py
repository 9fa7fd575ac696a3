"""The table of exit codes, for every verb and format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cli_stub import make_report, make_verdict

from graphcheck.cli.exits import FailOn, exit_code_of_report, exit_code_of_verdict
from graphcheck.errors import DeviceError, ExitCode, GraphcheckError, ModelError, UsageError
from graphcheck.process import WorkerFailure
from graphcheck.validate.types import Stage


@pytest.mark.parametrize("form", ["text", "json", "github"])
@pytest.mark.parametrize(
    ("severities", "options", "code"),
    [
        ((), (), 0),
        (("error",), (), 1),
        (("warning",), (), 1),
        (("note",), (), 0),
        (("note",), ("--fail-on", "note"), 1),
        (("warning",), ("--fail-on", "error"), 0),
        (("warning", "error"), ("--fail-on", "error"), 1),
        (("error",), ("--fail-on", "never"), 0),
        (("error",), ("--exit-zero",), 0),
    ],
)
def test_check(
    command: Callable[..., Any],
    api: Any,
    form: str,
    severities: tuple[str, ...],
    options: tuple[str, ...],
    code: int,
) -> None:
    api.answer = make_report(*severities)
    ended = command("check", "model.py", "--output-format", form, *options)
    assert ended.code == code
    assert ended.err == ""


@pytest.mark.parametrize("options", [(), ("--exit-zero",), ("--fail-on", "never")])
def test_a_model_that_could_not_be_checked_is_never_forgiven(
    command: Callable[..., Any], api: Any, options: tuple[str, ...]
) -> None:
    api.answer = make_report("error", failed=True)
    assert command("model.py", *options).code == 3


@pytest.mark.parametrize("form", ["text", "json", "github"])
@pytest.mark.parametrize(
    ("word", "options", "code"),
    [
        ("match", (), 0),
        ("drift", (), 1),
        ("drift", ("--fail-on", "error"), 0),
        ("diverged", (), 1),
        ("diverged", ("--fail-on", "error"), 1),
        ("diverged", ("--exit-zero",), 0),
        ("diverged", ("--fail-on", "never"), 0),
        ("not run", (), 1),
    ],
)
def test_validate(
    command: Callable[..., Any],
    api: Any,
    form: str,
    word: str,
    options: tuple[str, ...],
    code: int,
) -> None:
    api.answer = make_verdict(word)
    ended = command("validate", "model.py", "--output-format", form, *options)
    assert ended.code == code
    assert word in ended.out


@pytest.mark.parametrize("verb", ["check", "validate"])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("what", "next"), 2),
        (ModelError("what", "next"), 3),
        (DeviceError("what", "next"), 4),
        (GraphcheckError("what", "next"), 70),
        (WorkerFailure("crash", "was killed by SIGSEGV", "", ""), 70),
        (ValueError("what"), 70),
        (MemoryError(), 70),
        (RecursionError(), 70),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors(
    command: Callable[..., Any], api: Any, verb: str, error: BaseException, code: int
) -> None:
    api.answer = error
    ended = command(verb, "model.py")
    assert ended.code == code
    assert ended.out == ""
    assert ended.err.startswith("graphcheck: error: ")
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("check", "model.py", "more.py"),
        ("check", "model.py", "--bogus"),
        ("check", "model.py", "--fail-on", "sometimes"),
        ("check", "model.py", "--output-format", "xml"),
        ("check", "model.py", "--timeout", "soon"),
        ("check", "model.py", "--timeout", "0"),
        ("check", "model.py", "--timeout", "nan"),
        ("check", "model.py", "--memory-limit", "-1"),
        ("check", "model.py", "--select", "E5"),
        ("check", "model.py", "--ignore", "GC0"),
        ("check", "model.py", "--output", "no/folder/x.json"),
        ("check", "model.py", "--config", "none.toml"),
        ("check", "model.py", "--kernel-library", "none.so"),
        ("check", "missing.py"),
        ("check", "."),
        ("check", "word"),
        ("validate", "model.py", "--steps", "0"),
        ("rule", "GC999"),
        ("rule", "GC301", "--all"),
        ("advisory", "show", "GCA-1"),
        ("advisory",),
        ("opset", "show", "none"),
        ("opset", "generate"),
        ("opset", "generate", "--from", "none.whl"),
        ("opset", "shout"),
        ("word",),
        ("--bogus",),
        (),
    ],
)
def test_wrong_usage(command: Callable[..., Any], api: Any, arguments: tuple[str, ...]) -> None:
    ended = command(*arguments)
    assert ended.code == 2
    assert api.asked == []
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("-h",),
        ("--version",),
        ("check", "--help"),
        ("validate", "-h"),
        ("rule",),
        ("rule", "--json"),
        ("advisory", "list"),
        ("opset", "list"),
        ("opset", "show"),
        ("opset", "--help"),
        ("doctor", "--help"),
    ],
)
def test_what_only_tells(command: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    ended = command(*arguments)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out


@pytest.mark.parametrize("fail_on", list(FailOn))
def test_a_verdict_word_nobody_knows_is_no_match(fail_on: FailOn) -> None:
    expected = ExitCode.OK if fail_on is FailOn.NEVER else ExitCode.FINDINGS
    assert exit_code_of_verdict(make_verdict("marvellous"), fail_on) == expected


def test_failed_wins_over_no_findings() -> None:
    assert exit_code_of_report(make_report(failed=True), FailOn.NEVER) == ExitCode.MODEL


@pytest.mark.parametrize(
    ("stage", "code"),
    [("load the model", 3), ("export", 3), ("joint", 3), ("lower", 1), ("load", 1), ("train", 1)],
)
def test_not_run_because_of_the_model_is_another_code(stage: str, code: int) -> None:
    stages = (Stage("before", "pass"), Stage(stage, "fail"), Stage("export", "not run"))
    verdict = replace(make_verdict("not run"), stages=stages)
    assert exit_code_of_verdict(verdict, FailOn.WARNING) == code
    assert exit_code_of_verdict(verdict, FailOn.NEVER) == (3 if code == 3 else 0)


def test_stages_of_the_model_are_stages_of_the_ladder() -> None:
    from graphcheck.cli.exits import _MODEL_STAGES
    from graphcheck.validate.ladder import STAGES

    assert tuple(STAGES[:2]) == _MODEL_STAGES[1:]
