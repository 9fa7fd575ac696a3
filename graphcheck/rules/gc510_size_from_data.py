"""GC510: sizes and numbers that depend on the data."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import FromData, JointGraph
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Severity

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    made = {call.node: call for call in graph.calls}
    by_node: dict[str, list[FromData]] = {}
    for fact in graph.from_data:
        by_node.setdefault(fact.node, []).append(fact)
    for node, facts in by_node.items():
        call = made.get(node)
        if call is None:
            continue
        yield Finding(
            code=RULE.code,
            severity=Severity.NOTE,
            subject=call.op,
            message=_told(facts),
            source=call.source,
            module=call.source.module,
            modules=(call.source.module,),
            nodes=(node,),
        )


def _told(facts: list[FromData]) -> str:
    if not any(fact.size for fact in facts):
        return (
            "reads a number out of a tensor: training is checked with that of the example data "
            "alone"
        )
    most = next((fact.most for fact in facts if fact.size), None)
    planned = f"memory is planned for the most, {most}" if most else "it has no upper bound"
    return (
        f"makes a size that depends on the data: {planned}, and training is checked with that of "
        "the example data alone"
    )


RULE = Rule(
    code="GC510",
    name="size-from-data",
    severity=Severity.NOTE,
    summary="A size or a number depends on the data.",
    explanation=(
        "Boolean indexing, nonzero, masked_select and the like make tensors whose size is known "
        "only when the program runs; `.item()` reads a number out of one. The program plans "
        "memory for the largest size, so a size without an upper bound cannot be lowered. Where a "
        "graph has such sizes, the check lowers the model as export does, since lowering stops "
        "at things that no single op shows.\n"
        "What to do: nothing, or use a mask in place of a selection "
        "(`(loss * keep).sum() / keep.sum()`), which computes the same with fixed sizes."
    ),
    example="loss = F.cross_entropy(logits[labels >= 0], labels[labels >= 0])",
    check=check,
)
