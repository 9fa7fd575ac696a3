"""GC201: a kernel refuses the number of dimensions."""

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
    code="GC201",
    name="rank",
    severity=Severity.ERROR,
    summary="A kernel does not take tensors of this number of dimensions.",
    explanation=(
        "The kernel is registered, but written for certain ranks only. The program lowers, "
        "passes the IR check and loads; the first step stops with error 0x12 (invalid "
        "argument). The backward kernel of convolution takes 2-d convolutions only, so every "
        "Conv1d that trains is hit; Conv3d fails in the forward already.\n"
        "What to do: `graphcheck export` rewrites what it can exactly (Conv1d as a Conv2d of "
        "height 1); a model of 3-d convolutions needs a kernel of your own."
    ),
    example="nn.Conv1d(3, 8, 3)",
    check=check,
)
