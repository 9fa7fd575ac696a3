"""GC203: a pad kernel refuses negative padding."""

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
    code="GC203",
    name="negative-padding",
    severity=Severity.ERROR,
    summary="The pad kernel does not take negative padding.",
    explanation=(
        "The backward of a constant pad crops, which autograd writes as a pad with negative "
        "numbers; the kernel stops the first step with error 0x12 (invalid argument). Every "
        "`F.pad` and `nn.ZeroPad2d` behind a trainable layer is hit, and "
        "`nn.Conv2d(padding='same')` with an even kernel.\n"
        "What to do: `graphcheck export` writes negative pads as slices, which is exact."
    ),
    example="F.pad(hidden, (1, 1))  # hidden depends on a parameter",
    check=check,
)
