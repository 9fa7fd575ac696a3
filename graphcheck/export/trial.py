"""Lowering a graph with sizes that depend on the data, to see whether it can be.

Nothing about a single op tells: to_edge and to_executorch stop where they have to know a number
that only the data tell. So such a graph is rewritten and lowered as export does; nothing is written
or run.
"""

from __future__ import annotations

from graphcheck.errors import ModelError
from graphcheck.export.rewriting import left_standing, prepare
from graphcheck.graph.types import JointGraph, OpCall
from graphcheck.opset.types import Opset
from graphcheck.report.types import NotChecked
from graphcheck.rewrite.buffers import initial_state_passes
from graphcheck.rewrite.plan import Choice
from graphcheck.rules.kernels import kernel_finding
from graphcheck.rules.types import Finding, Mend, Severity
from graphcheck.runtime.lower import lower
from graphcheck.runtime.lower_failure import StageFailure
from graphcheck.workload.types import Workload

__all__ = ["try_lowering"]

_WHAT = "whether sizes that depend on the data can be lowered"
_LAYOUT = Mend(
    "layout",
    "not-empty",
    "the memory layout that the tensor has unless it is empty",
    True,
    "graphcheck export",
)
_LEFT = Mend(
    "edit",
    "no-ir-check",
    "lower with EdgeCompileConfig(_check_ir_validity=False), as export does",
    True,
)
_FIXED = Mend(
    "edit",
    "by hand",
    "no rewrite covers it, so export refuses the model: compute with fixed sizes, and a mask of "
    "what counts",
    False,
)


def try_lowering(
    workload: Workload, opset: Opset, graph: JointGraph
) -> tuple[tuple[Finding, ...], tuple[NotChecked, ...]]:
    """What lowering says of a graph with sizes from the data (`graph.from_data`)."""
    try:
        workload, rewritten, _ = prepare(workload, opset, Choice(kernels=opset.all_kernels))
    except ModelError as error:
        return (), (NotChecked(_WHAT, error.message),)
    standing = left_standing(rewritten.findings)
    if standing:
        ops = ", ".join(dict.fromkeys(finding.subject for finding in standing))
        return (), (NotChecked(_WHAT, f"export stops before that, at {ops}"),)
    lowered = lower(
        workload,
        traced=rewritten.traced,
        retry_without_ir_check=True,
        passes=initial_state_passes(rewritten.traced.joint),
        settle=True,
    )
    call = _call(graph, lowered.failure)
    if lowered.failure is not None:
        message = f"cannot be lowered: {lowered.failure.message}"
        evidence = tuple(lowered.failure.log.strip().splitlines()[:1])
        return (kernel_finding(call, "GC105", message, evidence, mends=(_FIXED,)),), ()
    found = []
    if not lowered.ir_checked and not any(f.code == "GC104" for f in rewritten.findings):
        message = "makes a size that to_edge's IR check refuses, although the runtime can run it"
        found.append(kernel_finding(call, "GC104", message, severity=Severity.NOTE, mends=(_LEFT,)))
    if lowered.settled:
        message = (
            "makes a size that leaves the memory layout of a tensor after it open, where "
            "to_executorch stops"
        )
        found.append(kernel_finding(call, "GC105", message, mends=(_LAYOUT,)))
    return tuple(found), ()


def _call(graph: JointGraph, failure: StageFailure | None) -> OpCall:
    """The call at which lowering stopped, else the first that makes a size or number."""
    by_node = {call.node: call for call in graph.calls}
    wanted = [failure.node] if failure else []
    wanted += [fact.node for fact in graph.from_data]
    return next((by_node[node] for node in wanted if node in by_node), graph.calls[0])
