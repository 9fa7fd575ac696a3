"""One finding for many calls: merge what says the same, count it, and show one module pattern."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from graphcheck.graph.types import Source
from graphcheck.rules.types import Finding

__all__ = ["deduplicate", "module_pattern", "sort_key"]

T = TypeVar("T")
_LISTED = 3


def deduplicate(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings of equal code, severity, subject, message and advisory; sort the result.

    Evidence and gradients are united, the order of first sight kept.
    """
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        key = (
            finding.code,
            finding.severity.value,
            finding.subject,
            finding.message,
            finding.advisory,
        )
        groups.setdefault(key, []).append(finding)
    return tuple(sorted((_merge(group) for group in groups.values()), key=sort_key))


def sort_key(finding: Finding) -> tuple[int, str, str, int, str]:
    """Worst first, then by rule, file, line and subject."""
    source = finding.source
    return (-finding.severity.rank, finding.code, source.file, source.line, finding.subject)


def _merge(group: Sequence[Finding]) -> Finding:
    in_order = sorted(group, key=lambda f: (f.source.file, f.source.line))
    first = in_order[0]
    modules = _unique(
        module for finding in in_order for module in (finding.modules or (_module_of(finding),))
    )
    return replace(
        first,
        module=module_pattern(modules),
        modules=modules,
        count=sum(finding.count for finding in group),
        evidence=_unique(line for finding in in_order for line in finding.evidence),
        mends=_unique(mend for finding in group for mend in finding.mends),
        gradients=_unique(name for finding in group for name in finding.gradients),
        nodes=_unique(node for finding in group for node in finding.nodes),
        places=_unique(
            place for finding in in_order for place in (finding.places or (finding.source,))
        ),
    )


def _module_of(finding: Finding) -> str:
    return finding.module or finding.source.module


def _unique(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def module_pattern(modules: Sequence[str]) -> str:
    """`pool`, `pool1, pool2`, or for many `bn1, layer*.*.bn*, layer*.0.downsample.1`.

    Paths of equal depth share one pattern; a part in which they differ keeps its common beginning.
    """
    modules = tuple(dict.fromkeys(module for module in modules if module))
    if len(modules) <= _LISTED:
        return ", ".join(modules)
    by_depth: dict[int, list[list[str]]] = {}
    for module in modules:
        parts = module.split(".")
        by_depth.setdefault(len(parts), []).append(parts)
    return ", ".join(
        ".".join(_part_pattern(column) for column in zip(*rows, strict=True))
        for _, rows in sorted(by_depth.items())
    )


def _part_pattern(parts: Sequence[str]) -> str:
    if len(set(parts)) == 1:
        return parts[0]
    # By character, which is what is meant here.
    common = os.path.commonprefix(list(parts))  # noqa: RUF071
    return common.rstrip("0123456789") + "*"


def with_construction(finding: Finding, place: tuple[str, int]) -> Finding:
    """The finding with the line that constructs its module."""
    source: Source = replace(finding.source, constructed_file=place[0], constructed_line=place[1])
    return replace(finding, source=source)
