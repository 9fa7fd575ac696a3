"""GC204: a kernel refuses a dtype."""

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
    code="GC204",
    name="dtype",
    severity=Severity.ERROR,
    summary="A kernel does not take tensors of this dtype.",
    explanation=(
        "Kernels list the dtypes they are compiled for; for another one the first step stops "
        "with error 0x12 (invalid argument), or the runtime aborts. The IR check does not "
        "look at this for every op.\n"
        "What to do: compute that part in float32 (`x.float()`), or register a kernel of your "
        "own."
    ),
    example="F.log_softmax(x.double(), -1)",
    check=check,
)
