"""GC102: an op that cannot be lowered because it has no out variant."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph
from graphcheck.opset.out_variant import refused_by_ir_check
from graphcheck.opset.support import schema_name
from graphcheck.opset.types import Grade
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.kernels import kernel_finding, supports
from graphcheck.rules.types import Finding, Severity

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for call, support in supports(graph, context.opset):
        if support.grade is Grade.NO_OUT_VARIANT:
            refused = refused_by_ir_check(schema_name(call), call.is_core_aten)
            yield kernel_finding(
                call,
                RULE.code,
                "cannot be lowered: no out variant takes its arguments, and kernels are out "
                "variants",
                (
                    "to_edge refuses it before that: it is not core ATen"
                    if refused
                    else "to_executorch stops with `Missing out variants`",
                ),
            )


RULE = Rule(
    code="GC102",
    name="no-out-variant",
    severity=Severity.ERROR,
    summary="An op has no out variant, so no kernel can exist for it.",
    explanation=(
        "Kernels of ExecuTorch write into memory that was planned before: they are out variants "
        "(`aten::add.out`). Lowering pairs each op with the out variant that takes the same "
        "arguments; some ops of training graphs have none. If the op is not core ATen, to_edge "
        "refuses it first; with the IR check off, to_executorch stops with `Missing out "
        "variants`. Switching checks off only moves the failure.\n"
        "What to do: apply a rewrite that expresses the op by others, or swap the module."
    ),
    example="nn.BatchNorm2d(8)  # in train mode: aten._native_batch_norm_legit_functional",
    check=check,
)
