"""What the rules room hands on: one `Finding` per problem, each with its mends."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from graphcheck.graph.types import Source

__all__ = ["Finding", "Mend", "Severity"]


class Severity(enum.StrEnum):
    """How bad. `error` stops or silently spoils training, `note` changes nothing by itself."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        return {"error": 2, "warning": 1, "note": 0}[self.value]


_NOWHERE = Source()


@dataclass(frozen=True)
class Mend:
    """One way to mend a finding.

    `kind` is one of rewrite, swap, patch, edit; `exact` whether training stays the same function.
    `command` is what to type, empty when the edit is by hand.
    """

    kind: str
    name: str
    description: str
    exact: bool
    command: str = ""


@dataclass(frozen=True)
class Finding:
    """One problem, deduplicated: `count` calls in `modules`, shown as one `module` pattern.

    `subject` is the op (`aten.avg_pool2d_backward`) or what else is meant (`mutated buffers`).
    `source` is the first place. `gradients` are the parameters that the fault reaches.
    """

    code: str
    severity: Severity
    subject: str
    message: str
    source: Source = _NOWHERE
    module: str = ""
    modules: tuple[str, ...] = ()
    count: int = 1
    backward: bool = False
    evidence: tuple[str, ...] = ()
    mends: tuple[Mend, ...] = ()
    gradients: tuple[str, ...] = ()
    advisory: str = ""
    nodes: tuple[str, ...] = ()
    places: tuple[Source, ...] = ()
    """Every distinct place of a deduplicated finding, `source` being the first."""
    mitigated: str = ""
    """The kernel library that runs these calls instead of the kernel that the finding is about, or
    the stamp of the patched source tree that the kernel is built from."""

    @property
    def family(self) -> str:
        """`GC3` of `GC301`."""
        return self.code[:3]
