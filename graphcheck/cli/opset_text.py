"""The difference of two operator sets, as text and as JSON."""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.load import all_advisories
from graphcheck.advisory.ranges import in_range
from graphcheck.advisory.types import Advisory
from graphcheck.cli.tables import table
from graphcheck.opset.difference import Difference, present_since
from graphcheck.opset.types import Limit, Opset
from graphcheck.report.interface import Look

__all__ = ["diff_json", "diff_text", "kernel_history"]

SCHEMA = 1


def diff_json(found: Difference) -> dict[str, Any]:
    """Plain values of everything that differs."""
    begin, end = _advisories(found)
    new, gone = _limits(found)
    return {
        "schema": SCHEMA,
        "before": _name(found.before),
        "after": _name(found.after),
        "libraries": [
            {
                "library": entry.library,
                "before": entry.before,
                "after": entry.after,
                "added": list(entry.added),
                "removed": list(entry.removed),
            }
            for entry in found.libraries
        ],
        "limits": {"begin": new, "end": gone},
        "advisories": {
            "begin": [advisory.id for advisory in begin],
            "end": [advisory.id for advisory in end],
        },
    }


def diff_text(found: Difference, look: Look, *, advisories: bool = True) -> str:
    """Counts, then the names per library with + and -, then limits and advisories."""
    lines = [f"{_name(found.before)} -> {_name(found.after)}", ""]
    rows = [
        (e.library, str(e.before), str(e.after), f"+{len(e.added)} -{len(e.removed)}")
        for e in found.libraries
    ]
    head = ("library", found.before.version, found.after.version, "change")
    lines += table(head, rows, look).splitlines()
    for entry in found.libraries:
        lines += [f"+ {name} ({entry.library})" for name in entry.added]
        lines += [f"- {name} ({entry.library})" for name in entry.removed]
    if advisories:
        new, gone = _limits(found)
        lines += [f"+ limit {name}" for name in new]
        lines += [f"- limit {name}" for name in gone]
        begin, end = _advisories(found)
        lines += [f"+ {advisory.id} begins: {advisory.title}" for advisory in begin]
        lines += [f"- {advisory.id} ends: {advisory.title}" for advisory in end]
        if not (begin or end):
            lines.append("No advisory begins or ends between them.")
    return "\n".join(lines) + "\n"


def _name(opset: Opset) -> str:
    build = f":{'+'.join(opset.build)}" if opset.build else ""
    return f"{opset.runtime}=={opset.version}{build}"


def _advisories(found: Difference) -> tuple[list[Advisory], list[Advisory]]:
    begin, end = [], []
    for advisory in all_advisories():
        before = in_range(advisory, found.before.version) is True
        after = in_range(advisory, found.after.version) is True
        if after and not before:
            begin.append(advisory)
        if before and not after:
            end.append(advisory)
    return begin, end


def _limits(found: Difference) -> tuple[list[str], list[str]]:
    def ids(limits: tuple[Limit, ...]) -> set[str]:
        return {limit.id for limit in limits}

    before, after = ids(found.before.limits), ids(found.after.limits)
    return sorted(after - before), sorted(before - after)


def kernel_history(opset: Opset) -> dict[str, dict[str, Any]]:
    """By kernel: since which known release it is there (0.6.0 is the first known), which library
    it is of, the advisories that it is wrong by, and since when those that it was wrong by are
    mended ("right since 1.4.0", "" where there were none)."""
    from packaging.version import Version

    from graphcheck.opset.load import load
    from graphcheck.opset.registry import shipped

    releases = [load(name) for name in shipped()]
    wrong: dict[str, list[str]] = {}
    fixed: dict[str, list[str]] = {}
    for advisory in all_advisories():
        inside = in_range(advisory, opset.version)
        for kernel in advisory.kernels:
            if inside is True:
                wrong.setdefault(kernel, []).append(advisory.id)
            elif inside is False:
                fixed.setdefault(kernel, []).append(advisory.fixed_in)
    return {
        kernel: {
            "since": present_since(kernel, releases, opset.version),
            "implementation": _library(kernel, opset),
            "wrong": wrong.get(kernel, []),
            "right_since": (
                f"right since {max(fixed[kernel], key=Version)}" if kernel in fixed else ""
            ),
        }
        for kernel in opset.kernels
    }


def _library(kernel: str, opset: Opset) -> str:
    if kernel in opset.quantized:
        return "quantized"
    own = kernel in opset.optimized and not opset.portable
    return "optimized" if own else "portable" if opset.optimized else ""
