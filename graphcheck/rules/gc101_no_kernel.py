"""GC101: an op for which the runtime has no kernel."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph
from graphcheck.opset.types import Grade
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.kernels import kernel_finding, supports
from graphcheck.rules.types import Finding, Severity

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    opset = context.opset
    for call, support in supports(graph, opset):
        if support.grade is Grade.MISSING:
            yield kernel_finding(
                call,
                RULE.code,
                f"has no kernel in {opset.runtime} {opset.version}; the program loads and stops "
                "in its first step (0x14)",
                (
                    f"{support.kernel} is not among the {len(opset.kernels)} kernels of "
                    f"{opset.library}",
                ),
            )


RULE = Rule(
    code="GC101",
    name="no-kernel",
    severity=Severity.ERROR,
    summary="The runtime has no kernel for an op of the training graph.",
    explanation=(
        "The op lowers without complaint, the program is written and loads, but the runtime's "
        "registry has no kernel under its name. The first step of training stops with error 0x14 "
        "(operator missing); inference of the same model may run, since the op is often one of the "
        "backward graph.\n"
        "What to do: apply a rewrite that expresses the op by others (`graphcheck export` does so "
        "for the ops it knows), swap the module, or register a kernel of your own and name its "
        "library with --kernel-library."
    ),
    example="nn.AvgPool2d(2)  # behind a trainable layer: aten.avg_pool2d_backward",
    check=check,
)
