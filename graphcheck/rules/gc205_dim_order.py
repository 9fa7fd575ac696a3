"""GC205: a kernel refuses the memory layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from graphcheck.graph.types import JointGraph, OpCall
from graphcheck.opset.conditions import tensors_of
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.kernels import limit_findings
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["RULE"]

_BY_MASK = Mend(
    "rewrite",
    "nonzero_mask",
    "boolean indexing of the places, whose result is row-major",
    True,
    "graphcheck export",
)


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    found = limit_findings(graph, context.opset, RULE.code)
    made = {call.node: call for call in graph.calls}
    return (_with_origin(finding, made) for finding in found)


def _with_origin(finding: Finding, made: Mapping[str, OpCall]) -> Finding:
    """The finding with the `nonzero` that the layout comes from, which is what is rewritten."""
    origin = _nonzero_before(made[finding.nodes[0]], made)
    if origin is None:
        return finding
    return replace(
        finding,
        evidence=(*finding.evidence, "the result of nonzero is in column-major layout"),
        mends=(*finding.mends, _BY_MASK),
        nodes=(*finding.nodes, origin.node),
    )


def _nonzero_before(call: OpCall, made: Mapping[str, OpCall]) -> OpCall | None:
    seen = {call.node}
    left = [call]
    while left:
        call = left.pop()
        if call.op == "aten.nonzero":
            return call
        nodes = {tensor.node for tensor in tensors_of(call)} - seen
        seen |= nodes
        left += [made[node] for node in nodes if node in made and made[node].keeps_layout]
    return None


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
