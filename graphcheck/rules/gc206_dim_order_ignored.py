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
        "What to do: do not convert model or inputs to channels_last; call `.contiguous()` first "
        "on what comes in that layout."
    ),
    example="torch.cumsum(x.to(memory_format=torch.channels_last), 1)",
    check=check,
)
