"""GC103: an op that is not core ATen and has no kernel."""

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
        if support.grade is Grade.NOT_CORE:
            yield kernel_finding(
                call,
                RULE.code,
                f"is not core ATen, so to_edge refuses it, and {opset.runtime} {opset.version} "
                "has no kernel for it",
                (
                    f"{support.kernel} is not among the {len(opset.kernels)} kernels of "
                    f"{opset.library}",
                ),
            )


RULE = Rule(
    code="GC103",
    name="not-core-aten",
    severity=Severity.ERROR,
    summary="An op is outside core ATen and the runtime has no kernel for it.",
    explanation=(
        "to_edge accepts core ATen ops only and raises SpecViolationError for others. With the IR "
        "check off (`EdgeCompileConfig(_check_ir_validity=False)`) the program is written and "
        "loads, but its first step stops with error 0x14 (operator missing), since there is no "
        "kernel either.\n"
        "What to do: apply a rewrite that expresses the op by others, swap the module, or register "
        "a kernel of your own, name its library with --kernel-library, and lower with the IR "
        "check off."
    ),
    example="nn.SiLU()  # its backward allocates with aten.empty_permuted",
    check=check,
)
