"""GC205: a kernel refuses the memory layout."""

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
    code="GC205",
    name="dim-order",
    severity=Severity.ERROR,
    summary="A kernel does not take tensors in this memory layout.",
    explanation=(
        "ExecuTorch describes a layout by a dim order. Nearly every kernel wants all its "
        "tensors in one dim order, many want the default one; what a view, a permute or a "
        "reduction makes in the lowered program is in the default order, so a graph with "
        "channels_last inputs or weights mixes the two and stops in the first step with error "
        "0x12 (invalid argument).\n"
        "What to do: `graphcheck export` puts the model, its inputs and what forward asks for in "
        "the default layout, which is exact; feed the program row-major tensors. In the model "
        "itself: no channels_last, and `.contiguous()` on what comes in that layout."
    ),
    example="model.to(memory_format=torch.channels_last)",
    check=check,
)
