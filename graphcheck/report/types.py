"""The report of one `check`: everything an output format needs, and nothing it has to look up."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphcheck.graph.artefact import Artefact
from graphcheck.rules.types import Finding, Severity

__all__ = ["NotChecked", "Report", "Suppressed", "UnusedSuppression"]

SCHEMA_VERSION = "1"


@dataclass(frozen=True)
class NotChecked:
    """Something the check could not look at: `what`, and `why`."""

    what: str
    why: str


@dataclass(frozen=True)
class Suppressed:
    """A finding silenced by a comment or by configuration, with the user's reason."""

    finding: Finding
    by: str
    reason: str = ""


@dataclass(frozen=True)
class UnusedSuppression:
    """A `# graphcheck: ignore[...]` comment at `file`:`line` that silences nothing, and `why`."""

    file: str
    line: int
    comment: str
    why: str = "no finding here"


@dataclass(frozen=True)
class Report:
    """All that `check` found.

    `versions` maps torch, executorch, graphcheck and opset to their versions. `guesses` are
    sentences on what was assumed; `not_checked` what was left out and why; `failed` is true when
    the model could not be loaded, exported or traced (its reasons are GC0 findings). `artefact` is
    what a program file says of itself, None for a model.
    """

    target: str
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    unused_suppressions: tuple[UnusedSuppression, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    guesses: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    failed: bool = False
    ops: int = 0
    backward_ops: int = 0
    parameters: int = 0
    next_command: str = ""
    schema_version: str = SCHEMA_VERSION
    artefact: Artefact | None = None

    def __str__(self) -> str:
        """The report as `graphcheck check` prints it, without colour."""
        from graphcheck.report.formats.text import report_text
        from graphcheck.report.interface import Look

        return report_text(self, Look()).rstrip("\n")

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of this severity or worse."""
        return tuple(f for f in self.findings if f.severity.rank >= severity.rank)
