"""The order in which findings are told, the same in every format."""

from __future__ import annotations

from collections.abc import Iterable

from graphcheck.rules.types import Finding, Severity

__all__ = ["count_by_severity", "ordered"]

# What is silently wrong outranks what is missing: the user would not notice it himself.
_FAMILIES = ("GC0", "GC3", "GC1", "GC2", "GC5", "GC4", "GC6")


def _key(finding: Finding) -> tuple[object, ...]:
    family = finding.family
    place = _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES)
    source = finding.source
    return (
        -finding.severity.rank,
        place,
        finding.code,
        source.file,
        source.line,
        finding.module,
        finding.subject,
        finding.message,
    )


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first, then by family (silently wrong before missing), code, file and line."""
    return tuple(sorted(findings, key=_key))


def count_by_severity(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings there are of each severity, worst first, zeros included."""
    counts = {s.value: 0 for s in sorted(Severity, key=lambda s: -s.rank)}
    for finding in findings:
        counts[finding.severity.value] += 1
    return counts
