"""GC104: an op that the IR check refuses although the runtime has its kernel."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph
from graphcheck.opset.out_variant import refused_by_ir_check
from graphcheck.opset.support import schema_name
from graphcheck.opset.types import Grade
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.kernels import kernel_finding, supports
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["RULE"]

_MENDS = (
    Mend(
        "edit",
        "ir-exception",
        "name the op in EdgeCompileConfig(_core_aten_ops_exception_list=[...])",
        True,
    ),
)
_RUNS = (Grade.REGISTERED, Grade.MEASURED, Grade.NOT_CHECKED)


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for call, support in supports(graph, context.opset):
        if not support.kernel or support.grade not in _RUNS:
            continue
        if refused_by_ir_check(schema_name(call), call.is_core_aten):
            yield kernel_finding(
                call,
                RULE.code,
                "is refused by to_edge's IR check, although the runtime has its kernel",
                (f"{support.kernel} is registered",),
                Severity.NOTE,
                _MENDS,
            )


RULE = Rule(
    code="GC104",
    name="ir-check-refuses",
    severity=Severity.NOTE,
    summary="The IR check of to_edge refuses an op that the runtime can run.",
    explanation=(
        "to_edge accepts core ATen ops only, but some ops outside core ATen have a kernel and run "
        "right (`var_mean.correction`, `masked_select`, `unfold`). Lowering with an exception "
        "for the op, or with the IR check off, is enough; `graphcheck export` lowers so."
    ),
    example="x.unfold(-1, 3, 1)",
    check=check,
)
