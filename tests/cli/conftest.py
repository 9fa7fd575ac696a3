"""Running the command line in this process, on a stub of the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import graphcheck.api
from graphcheck.cli.main import run
from graphcheck.graph.types import Source
from graphcheck.report.types import NotChecked, Report
from graphcheck.rules.types import Finding, Severity
from graphcheck.validate.types import Verdict


@dataclass
class Api:
    """What the stub answers (an exception is raised), and the options it was asked with."""

    answer: Any = None
    asked: list[Any] = field(default_factory=list)

    def __call__(self, options: Any, on_progress: Callable[[str], None] | None = None) -> Any:
        self.asked.append(options)
        if on_progress:
            on_progress("tracing")
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file `model.py` and no configuration."""
    (tmp_path / "model.py").write_text("x = 1\ny = 2\n")
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "GRAPHCHECK_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """The stub in place of `check_target` and `validate_target`."""
    stub = Api()
    monkeypatch.setattr(graphcheck.api, "check_target", stub)
    monkeypatch.setattr(graphcheck.api, "validate_target", stub)
    return stub


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def command(folder: Path, api: Api, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """`command("check", "model.py")` gives exit code, stdout and stderr."""

    def call(*arguments: str) -> Ended:
        code = run(arguments)
        out, err = capsys.readouterr()
        return Ended(int(code), out, err)

    return call


def make_report(*severities: str, failed: bool = False, not_checked: bool = False) -> Report:
    """A report with one finding of each severity."""
    findings = tuple(
        Finding(
            "GC001" if failed else "GC101",
            Severity(severity),
            "aten.x",
            "has no kernel",
            source=Source(file=str(Path("model.py").absolute()), line=1),
        )
        for severity in severities
    )
    left_out = (NotChecked("a", "b"),) if not_checked else ()
    return Report("model.py", findings, not_checked=left_out, ops=3, failed=failed)


def make_verdict(word: str) -> Verdict:
    """A verdict with this word."""
    return Verdict("model.py", word, "for a reason")
