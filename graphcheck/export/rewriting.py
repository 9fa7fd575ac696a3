"""Rewriting a graph until nothing in it asks for more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from graphcheck.errors import ModelError
from graphcheck.export.layout import contiguous_, contiguous_requests_, wants_default_layout
from graphcheck.export.types import RewriteRecord
from graphcheck.graph.capture import describe, exported_program, joint_program, trace
from graphcheck.graph.freezing import freeze_patterns
from graphcheck.graph.provenance import clean_module_path
from graphcheck.graph.trace import MARK, Traced, kept_whole, trace_joint
from graphcheck.graph.types import JointGraph
from graphcheck.judging import consult, run_rules
from graphcheck.opset.types import Opset
from graphcheck.report.types import NotChecked
from graphcheck.rewrite.apply import Applied
from graphcheck.rewrite.buffers import cumulative_average
from graphcheck.rewrite.plan import Choice, Plan
from graphcheck.rules.interface import Context
from graphcheck.rules.types import Finding, Severity
from graphcheck.worker import progress
from graphcheck.workload.types import Workload

__all__ = [
    "SETTLED",
    "STANDING",
    "Rewritten",
    "left_standing",
    "look",
    "prepare",
    "rewrite",
    "rewrite_records",
]

STANDING = ("GC1", "GC2", "GC3")
"""Families of findings with which a program cannot train right."""
SETTLED = (
    "tensors with a size that depends on the data have the memory layout that they have unless "
    "they are empty"
)
"""What is told of a lowering that settled memory layouts."""

_ROUNDS = 4


@dataclass(frozen=True)
class Rewritten:
    """A graph after its rewrites, its findings, and what was done.

    `records` are the applied rewrites, each with its module and the reason.
    """

    traced: Traced
    graph: JointGraph
    context: Context
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...] = ()
    records: tuple[tuple[Applied, str, str], ...] = ()


def prepare(
    workload: Workload, opset: Opset, choice: Choice
) -> tuple[Workload, Rewritten, tuple[str, ...]]:
    """The workload as it is lowered, its graph rewritten, and what was made row-major.

    Raises ModelError.
    """
    with kept_whole(choice.whole):
        with cumulative_average():
            traced = trace(workload)
        state = look(traced, workload, opset)
        layouts: tuple[str, ...] = ()
        if wants_default_layout(state.findings):
            workload, traced, layouts = _row_major(workload, traced)
            state = look(traced, workload, opset) if layouts else state
        return workload, rewrite(state, workload, opset, choice), layouts


def _row_major(workload: Workload, traced: Traced) -> tuple[Workload, Traced, tuple[str, ...]]:
    """The workload and its joint graph in the default memory layout, and what was changed."""
    workload, told = contiguous_(workload)
    exported = traced.exported
    if told:
        with cumulative_average():
            exported, _ = exported_program(workload, strict=traced.strict)
    told += contiguous_requests_(exported)
    if told:
        traced = joint_program(exported, workload, strict=traced.strict)
    return workload, traced, told


def left_standing(findings: Iterable[Finding]) -> list[Finding]:
    """The findings with which nothing is exported. Of branches the proof decides (GC106)."""
    return [
        f
        for f in findings
        if f.family in STANDING and f.severity is not Severity.NOTE and f.code != "GC106"
    ]


def rewrite(
    state: Rewritten,
    workload: Workload,
    opset: Opset,
    choice: Choice,
    again: Callable[..., Traced] = trace_joint,
) -> Rewritten:
    """Rewrite until no finding asks for more; every result is looked at again.

    `again` makes the graph anew from an exported program that had to change before.
    """
    if state.traced.no_gradient:
        clean = [clean_module_path(name, workload.prefix) for name in state.traced.no_gradient]
        trainable = [p.name for p in state.graph.parameters if p.trainable]
        freeze = " ".join(f"--freeze {name}" for name in freeze_patterns(clean, trainable))
        raise ModelError(
            f"the loss does not depend on {', '.join(clean)}",
            f"freeze what does not train: {freeze}",
            "GC503",
        )
    for _ in range(_ROUNDS):
        progress("rewriting the joint graph")
        loss = state.graph.loss
        wide = loss is not None and loss.dtype == "float64"
        plan = Plan.of(state.findings, choice, wide=wide)
        done: list[Applied] = []
        traced = state.traced
        exported, forward = plan.rewrite_forward(traced.exported, traced.joint)
        if any(item.applied for item in forward):
            traced = again(exported, strict=traced.strict)
            done += forward
        else:
            joint, done = plan.rewrite_joint(traced.joint)
            traced = replace(traced, joint=joint)
        applied = [item for item in done if item.applied]
        if not applied:
            break
        records = [*state.records, *(_record(item, plan, state) for item in applied)]
        state = look(traced, workload, opset, records)
    return state


def look(
    traced: Traced,
    workload: Workload,
    opset: Opset,
    records: Sequence[tuple[Applied, str, str]] = (),
) -> Rewritten:
    """The graph and its findings; `records` are the rewrites made so far."""
    graph = describe(traced, workload)
    context, not_checked = consult(graph, opset)
    findings = run_rules(graph, context)
    return Rewritten(traced, graph, context, findings, not_checked, tuple(records))


def _record(item: Applied, plan: Plan, state: Rewritten) -> tuple[Applied, str, str]:
    """The applied rewrite, the module it concerns and the finding that asked for it."""
    nodes = {item.node, *_made_from(item.node, state.traced)}
    finding = next((plan.reasons[node] for node in plan.reasons if node in nodes), None)
    source = next((c.source for c in state.graph.calls if c.node in nodes), None)
    module = source.module if source else (finding.source.module if finding else "")
    if finding:
        reason = f"{finding.code}: {finding.message}"
    else:
        widened = plan.wide and item.rewrite.widens
        reason = "the loss is float64" if widened else "asked for with --rewrite"
    return item, module, reason


def _made_from(node: str, traced: Traced) -> Iterator[str]:
    """The joint nodes that an exported node became."""
    for made in traced.joint.graph.nodes:
        if (made.meta.get("custom") or {}).get(MARK) == node:
            yield made.name


def rewrite_records(records: Sequence[tuple[Applied, str, str]]) -> tuple[RewriteRecord, ...]:
    """One record for each rewrite, with all its modules and reasons."""
    counts = Counter(item.rewrite.name for item, _, _ in records)
    found = []
    for name in sorted(counts):
        own = [record for record in records if record[0].rewrite.name == name]
        rewrite = own[0][0].rewrite
        found.append(
            RewriteRecord(
                name=name,
                op=rewrite.op,
                count=counts[name],
                modules=tuple(dict.fromkeys(module for _, module, _ in own if module)),
                reason="; ".join(dict.fromkeys(reason for _, _, reason in own)),
                formula=rewrite.formula,
                exact=rewrite.exact,
                growth=sum(item.growth for item, _, _ in own),
            )
        )
    return tuple(found)
