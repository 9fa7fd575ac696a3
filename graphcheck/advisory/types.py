"""Known-wrong kernels: a version range as the hint, a behavioural probe as the proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Advisory", "ProbeResult", "Verified"]


@dataclass(frozen=True)
class Verified:
    """What was seen on a version when the advisory was written: `wrong` or `right`, by which
    command (or "read in the source")."""

    version: str
    outcome: str
    command: str


@dataclass(frozen=True)
class Advisory:
    """One known fault of kernels.

    `id` is `GCA-YYYY-NNNN`. `ops` are the ATen names it concerns (`aten.native_dropout`), `when`
    further conditions on the call as data (the form of opset limits). `affected` is a version
    range (PEP 440), from `events`: introduced, and fixed or last_affected. `rule` is the rule that
    reports it; `probe` the name of the probe that proves it, empty when the fault cannot be probed.
    `verified` is what was seen on each version, `patches` names those that mend it. `libraries`
    are those whose own implementation has the fault; () those of the wheels that were measured.

    `concerns` is what in a graph the fault is about: `ops`, `mutated_buffers` or
    `half_parameters`. `says` goes on from the name of the op (`does not scale what it keeps`).
    `reduction` tells how many terms a call adds up, and which numbers of terms are affected (see
    `graphcheck.advisory.terms`).
    """

    id: str
    title: str
    ops: tuple[str, ...]
    kernels: tuple[str, ...]
    affected: str
    rule: str
    what: str
    consequence: str
    evidence: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    when: Mapping[str, Any] | None = None
    probe: str = ""
    fixed_in: str = ""
    mends: tuple[Mapping[str, Any], ...] = ()
    concerns: str = "ops"
    says: str = ""
    reduction: Mapping[str, Any] | None = None
    aliases: tuple[str, ...] = ()
    severity: str = "silently wrong"
    events: tuple[tuple[str, str], ...] = ()
    verified: tuple[Verified, ...] = ()
    patches: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    reference_types: tuple[str, ...] = ()
    published: str = ""
    modified: str = ""

    @property
    def typed_references(self) -> tuple[tuple[str, str], ...]:
        """The references with OSV's type of each."""
        return tuple(zip(self.reference_types, self.references, strict=True))

    def seen_on(self, version: str) -> Verified | None:
        """What was seen on a version (a local label aside), None if it was not looked at."""
        public = version.partition("+")[0]
        return next((entry for entry in self.verified if entry.version == public), None)


@dataclass(frozen=True)
class ProbeResult:
    """What a probe saw on one runtime: `wrong`, `right`, or `not run` with the reason in `detail`.

    `figure` is the measured quantity in words (for instance `kept output / x = 1.0 at p = 0.5`).
    `version` is the executorch version that was probed, "" when unknown.
    """

    advisory: str
    outcome: str
    figure: str = ""
    detail: str = ""
    build_id: str = ""
    version: str = ""
