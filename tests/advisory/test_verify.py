"""`graphcheck advisory verify`: a probe beats the version range, and both are shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphcheck.advisory import run as run_module
from graphcheck.advisory.load import advisory_by_id, all_advisories
from graphcheck.advisory.types import Advisory, ProbeResult
from graphcheck.cli.advisory_text import judge
from graphcheck.cli.main import run

ID = "GCA-2026-0001"


def advisory() -> Advisory:
    found = advisory_by_id(ID)
    assert found is not None
    return found


def answer(outcome: str, version: str = "1.5.1", detail: str = "") -> ProbeResult:
    figure = "" if detail else "off by 1"
    return ProbeResult(ID, outcome, figure, detail, "build", version)


@pytest.mark.parametrize(
    ("outcome", "version", "said", "disagrees"),
    [
        ("wrong", "1.5.1", "known wrong", False),
        ("right", "1.5.1", "fixed", True),
        ("right", "1.9.0", "right", False),
        ("wrong", "1.9.0", "known wrong", True),
        ("not run", "1.5.1", "could not run", False),
    ],
)
def test_probe_and_range(outcome: str, version: str, said: str, disagrees: bool) -> None:
    found = judge(advisory(), answer(outcome, version))
    assert (found.said, found.disagrees) == (said, disagrees)


def test_a_kernel_library_may_mend_what_is_affected() -> None:
    found = judge(advisory(), answer("right"), ["mine.so"])
    assert (found.said, found.disagrees) == ("fixed by the kernel library", False)


def test_a_range_with_a_fix() -> None:
    fixed = replace(advisory(), affected=">=0.6.0,<1.5.0", fixed_in="1.5.0")
    assert judge(fixed, answer("right")).range == "fixed in 1.5.0"
    found = judge(fixed, answer("wrong"))
    assert (found.said, found.disagrees) == ("known wrong", True)


def _run(
    monkeypatch: pytest.MonkeyPatch, results: dict[str, ProbeResult], *arguments: str
) -> tuple[int, list[Any]]:
    asked: list[Any] = []

    def probe(ids: list[str], **options: Any) -> dict[str, ProbeResult]:
        asked.append((ids, options))
        return {name: results[name] for name in ids}

    monkeypatch.setattr(run_module, "probe", probe)
    return run(["advisory", "verify", *arguments]), asked


def test_a_healthy_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, ((ids, options),) = _run(monkeypatch, {ID: answer("wrong")}, ID)
    assert (code, ids, options["refresh"], options["libraries"]) == (0, [ID], True, [])
    assert capsys.readouterr().out == (
        "id             probe        version range               measured\n"
        f"{ID}  known wrong  affected (>=0.6.0,<=1.5.1)  off by 1\n"
        "1 known wrong on executorch 1.5.1.\n"
    )


def test_both_are_shown_when_they_disagree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = _run(monkeypatch, {ID: answer("right")}, ID)
    assert code == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        f"{ID}: the probe says fixed, the version range says affected (>=0.6.0,<=1.5.1); the "
        "probe counts.",
        "1 fixed on executorch 1.5.1.",
    ]


def test_what_could_not_run_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = {a.id: replace(answer("wrong"), advisory=a.id) for a in all_advisories()}
    results[ID] = answer("not run", detail="its process was killed by SIGSEGV")
    code, _ = _run(monkeypatch, results, "--json")
    assert code == 1
    body = json.loads(capsys.readouterr().out)
    first = body["answers"][0]
    assert (first["said"], first["figure"]) == (
        "could not run",
        "its process was killed by SIGSEGV",
    )


def test_a_missing_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none.so"
    assert run(["advisory", "verify", "--kernel-library", str(missing)]) == 2
    assert capsys.readouterr().err == (
        f"graphcheck: error: --kernel-library {missing}: there is no such file.\n"
        "next: Check the path; graphcheck patch build -o DIR makes such a library.\n"
    )
