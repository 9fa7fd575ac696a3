"""A stub of the API, and small reports and verdicts for it to answer with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphcheck.graph.types import Source
from graphcheck.report.types import NotChecked, Report
from graphcheck.rules.types import Finding, Severity
from graphcheck.validate.types import Verdict

__all__ = ["Api", "Ended", "make_report", "make_verdict"]


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


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


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
