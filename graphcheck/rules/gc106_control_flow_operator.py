"""GC106: a control flow operator, whose branches are not read."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["RULE"]

_MEND = Mend("edit", "torch.where", "compute both sides and choose with torch.where", True)


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for name, source in graph.control_flow:
        yield Finding(
            code=RULE.code,
            severity=Severity.ERROR,
            subject=name,
            message="has branches that are graphs of their own: their ops are NOT CHECKED, and "
            "training through them cannot be proven",
            source=source,
            module=source.module,
            modules=(source.module,),
            mends=(_MEND,),
        )


RULE = Rule(
    code="GC106",
    name="control-flow-operator",
    severity=Severity.ERROR,
    summary="The branches of a control flow operator are not read.",
    explanation=(
        "`torch.cond` and its like keep each branch as a graph of its own. ExecuTorch lowers some "
        "of them, but graphcheck reads the ops of the joint graph itself, and cannot measure what "
        "rounding changes behind a branch, so neither the check nor the proof covers them. "
        "`graphcheck export --no-validate` writes such a program unproven.\n"
        "What to do: compute both sides and choose with `torch.where`."
    ),
    example="h = torch.cond(x.sum() > 0, f, g, (x,))  # h = torch.where(x.sum() > 0, f(x), g(x))",
    check=check,
)
