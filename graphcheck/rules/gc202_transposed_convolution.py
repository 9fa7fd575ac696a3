"""GC202: the backward kernel refuses transposed convolutions."""

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
    code="GC202",
    name="transposed-convolution",
    severity=Severity.ERROR,
    summary="The backward kernel does not take transposed convolutions.",
    explanation=(
        "The forward of a transposed convolution runs, its backward kernel stops the first "
        "step with error 0x12 (invalid argument).\n"
        "What to do: `graphcheck export` writes the backward of a transposed convolution as "
        "convolutions in which input and gradient change roles, which is exact. Upsampling "
        "followed by a convolution runs, but is another function."
    ),
    example="nn.ConvTranspose2d(8, 4, 2, stride=2)",
    check=check,
)
