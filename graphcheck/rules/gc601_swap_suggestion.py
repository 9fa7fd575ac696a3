"""GC601: another module in place of one whose ops are missing, refused or wrong."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph
from graphcheck.opset.swaps import SwapEntry, swaps_for_module
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["RULE"]

_WORDS = {"exact": "exact", "numerics": "changes numerics", "function": "changes the function"}


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for finding in context.found:
        if finding.family not in ("GC1", "GC2", "GC3") or finding.severity is Severity.NOTE:
            continue
        kind = finding.source.module_type
        for swap in swaps_for_module(kind, finding.subject):
            yield Finding(
                code=RULE.code,
                severity=Severity.NOTE,
                subject=kind,
                message=f"{swap.into} would do ({_WORDS[swap.change]}: {swap.remark})",
                source=finding.source,
                mends=(Mend("swap", swap.name, swap.into, swap.exact, _command(swap)),),
            )


def _command(swap: SwapEntry) -> str:
    if swap.exact and not swap.asked:
        return "graphcheck fix"
    return f"graphcheck fix --swap {swap.name}"


RULE = Rule(
    code="GC601",
    name="swap-suggestion",
    severity=Severity.NOTE,
    summary="Another module would train on this runtime.",
    explanation=(
        "For a module whose ops have no right kernel, the modules that do, each with whether it "
        "computes the same function. An exact graph rewrite, where there is one, keeps the module "
        "as it is and is named with the finding itself."
    ),
    example="nn.BatchNorm2d(64)  ->  nn.GroupNorm(32, 64)",
    check=check,
)
