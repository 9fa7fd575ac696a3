"""GC206: a kernel ignores the memory layout."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.kernels import limit_findings
from graphcheck.rules.types import Finding, Severity

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    return limit_findings(graph, context.opset, RULE.code)


RULE = Rule(
    code="GC206",
    name="dim-order-ignored",
    severity=Severity.ERROR,
    summary="A kernel reads a tensor as if it were in the default memory layout: silently wrong.",
    explanation=(
        "Some kernels take tensors in any memory layout and read them as row-major; others check "
        "that all are in one layout and then count positions as if it were the default one. "
        "Padding, concatenation, cumulative sums, gather, layer_norm and every elementwise op that "
        "broadcasts are among these. A channels_last tensor comes out permuted, without an "
        "error.\n"
        "What to do: `graphcheck export` puts the model, its inputs and what forward asks for in "
        "the default layout, which is exact; feed the program row-major tensors. In the model "
        "itself: no channels_last, and `.contiguous()` on what comes in that layout."
    ),
    example="torch.cumsum(x.to(memory_format=torch.channels_last), 1)",
    check=check,
)
