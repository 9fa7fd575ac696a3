"""The stock way from a `Workload` to a program: export, joint graph, `to_edge`, `to_executorch`.

A stage that fails is an answer, decoded into a sentence that names the op and the user's modules.
Every instruction of the program keeps the way back to its joint node, module and source line: the
nodes of the emitted graph carry the mark of their exported node (`graphcheck.graph.trace`), a
`from_node` chain that passes through the joint graph, and the index of their instruction.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphcheck.errors import ModelError
from graphcheck.graph.capture import exported_program, joint_program
from graphcheck.graph.facts import tied_parameters
from graphcheck.graph.provenance import Provenance, clean_module_path
from graphcheck.graph.trace import Traced
from graphcheck.graph.types import Source
from graphcheck.runtime.lower_failure import (
    StageFailure,
    edge_failure,
    executorch_failure,
    first_line,
)
from graphcheck.runtime.placement import WEIGHTS_TAG, Placement, place_, share_state_
from graphcheck.runtime.settle import forget_pending_, layouts_settled
from graphcheck.spill import Buffer, parked, release
from graphcheck.worker import progress
from graphcheck.workload.types import Workload

__all__ = [
    "Instruction",
    "Lowered",
    "LoweringStage",
    "kernel_nodes",
    "lower",
]

_NOWHERE = Source(module="")


@dataclass(frozen=True)
class LoweringStage:
    """One stage that ran: export, joint or lower; `failure` is None when it passed."""

    name: str
    seconds: float
    failure: StageFailure | None = None
    detail: str = ""


@dataclass(frozen=True)
class Instruction:
    """One instruction of method `forward`: registry name (`aten::relu.out`), and where it is from.

    `node` is the name of its joint node ("" where torch added the instruction while lowering).
    """

    index: int
    op: str
    node: str = ""
    source: Source = _NOWHERE
    backward: bool = False


@dataclass
class Lowered:
    """What lowering gave, up to the stage that failed.

    `program` is the serialized program, None after a failure; `weights` is the file of weights
    beside it, if they are external. `traced` holds the exported program
    and the joint graph, `joint` the graph that was lowered (after the transform), `emitted` the
    graph the instructions were written from; they are torch objects. `settled`: a memory layout
    was decided that a size from the data had left open.
    """

    stages: list[LoweringStage] = field(default_factory=list)
    program: Buffer | None = None
    weights: Buffer | None = None
    instructions: tuple[Instruction, ...] = ()
    traced: Traced | None = None
    joint: Any = None
    emitted: Any = None
    ir_checked: bool = True
    settled: bool = False
    notes: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> tuple[Path, Path | None]:
        """Write program and weights into a folder; the path of the weights if they are external."""
        program, weights = folder / "model.pte", folder / "model.ptd"
        program.write_bytes(self.program or b"")
        if self.weights is None:
            return program, None
        weights.write_bytes(self.weights)
        return program, weights

    @property
    def failure(self) -> StageFailure | None:
        """The failure of the last stage, None if all passed."""
        return self.stages[-1].failure if self.stages else None


class _Failed(Exception):
    def __init__(self, failure: StageFailure) -> None:
        self.failure = failure


def lower(
    workload: Workload,
    *,
    check_ir: bool = True,
    retry_without_ir_check: bool = False,
    transform: Callable[[Any], Any] | None = None,
    passes: Sequence[Any] = (),
    allow_missing_gradients: bool = False,
    strict: bool = False,
    traced: Traced | None = None,
    placement: Placement | None = None,
    settle: bool = False,
) -> Lowered:
    """Lower a workload the way the documentation of ExecuTorch does.

    `check_ir` is the default IR check of `to_edge`; with `retry_without_ir_check` a refusal by it
    is noted and `to_edge` runs again without. `transform` changes the joint program before
    `to_edge`; `passes` go into the configuration of `to_executorch`. `strict` asks for strict
    export first; it is taken for tied weights, and where non-strict export fails, in any case.

    `traced` is what to lower in place of a fresh trace (a joint graph that has been rewritten).
    `placement` adds methods that share the state of `forward`, or keeps weights outside. `settle`
    decides memory layouts that depend on sizes from the data (`graphcheck.runtime.settle`).

    Parameters without gradient fail the joint stage, as in torch, unless
    `allow_missing_gradients`: then a zero stands for their gradient.

    Raises nothing for a failing stage: see `Lowered.failure`.
    """
    lowered = Lowered(ir_checked=check_ir)
    if traced is not None:
        lowered.traced = traced
    else:
        exported = _stage(lowered, "export", lambda: _export(workload, lowered, strict))
        if exported is None:
            return lowered
        lowered.traced = _stage(
            lowered, "joint", lambda: _joint(exported, workload, allow_missing_gradients)
        )
    if lowered.traced is None:
        return lowered
    _stage(
        lowered,
        "lower",
        lambda: _to_program(
            lowered,
            workload,
            check_ir,
            retry_without_ir_check,
            transform,
            list(passes),
            placement or Placement(),
            layouts_settled if settle else contextlib.nullcontext,
        ),
    )
    release()
    return lowered


def _stage(lowered: Lowered, name: str, work: Callable[[], Any]) -> Any:
    """Run one stage, keep its time and failure; None after a failure."""
    start = time.monotonic()
    failure: StageFailure | None = None
    result = None
    notes = len(lowered.notes)
    try:
        result = work()
    except _Failed as error:
        failure = error.failure
    except ModelError as error:
        failure = StageFailure(error.message, error.hint, code=error.code)
    except Exception as error:
        failure = StageFailure(f"{name} failed: {first_line(error)}", log=str(error))
    detail = "; ".join(lowered.notes[notes:]) if failure is None else ""
    lowered.stages.append(LoweringStage(name, time.monotonic() - start, failure, detail))
    return result


def _export(workload: Workload, lowered: Lowered, strict: bool) -> tuple[Any, bool]:
    wanted = strict or bool(tied_parameters(workload.module))
    exported, strict = exported_program(workload, strict=strict)
    if strict is not wanted:
        lowered.notes.append(
            "strict export failed or dropped an assignment to a buffer, non-strict export passed"
            if wanted
            else "non-strict export failed, strict export passed"
        )
    return exported, strict


def _joint(
    exported_and_strict: tuple[Any, bool], workload: Workload, allow_missing: bool
) -> Traced:
    exported, strict = exported_and_strict
    traced = joint_program(exported, workload, strict=strict)
    if traced.no_gradient and not allow_missing:
        names = ", ".join(clean_module_path(n, workload.prefix) for n in traced.no_gradient)
        many = len(traced.no_gradient) > 1
        raise _Failed(
            StageFailure(
                f"{'parameters' if many else 'parameter'} {names} "
                f"{'get' if many else 'gets'} no gradient from the loss: "
                "torch cannot make the joint graph",
                hint=f"freeze {'them' if many else 'it'} (requires_grad = False) or use "
                f"{'them' if many else 'it'} in forward",
                code="GC503",
            )
        )
    return traced


def _to_program(
    lowered: Lowered,
    workload: Workload,
    check_ir: bool,
    retry: bool,
    transform: Callable[[Any], Any] | None,
    passes: list[Any],
    placement: Placement,
    layouts: Callable[[], AbstractContextManager[list[str] | None]],
) -> bool:
    assert lowered.traced is not None
    joint = lowered.traced.joint
    if transform is not None:
        progress("rewriting the joint graph")
        joint = transform(joint)
    lowered.joint = joint
    provenance = Provenance(lowered.traced.exported, workload.prefix, workload.root_type)

    progress("importing executorch")
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge

    def edge(check: bool) -> Any:
        progress("lowering: to_edge")
        config = EdgeCompileConfig(_check_ir_validity=check)
        return to_edge({"forward": joint, **placement.methods}, compile_config=config)

    try:
        program = edge(check_ir)
    except Exception as error:
        failure = edge_failure(error, joint, provenance)
        if not (retry and check_ir and failure.op):
            raise _Failed(failure) from error
        lowered.notes.append(f"{failure.message}; lowered without the IR check")
        lowered.ir_checked = False
        forget_pending_(joint)
        try:
            program = edge(False)
        except Exception as again:
            raise _Failed(edge_failure(again, joint, provenance)) from again
    for name in placement.methods:
        share_state_(program.exported_program(name), placement.trained)
    progress("lowering: to_executorch")
    try:
        config = ExecutorchBackendConfig(passes=passes)
        place_(config, placement, joint)
        with layouts() as settled:
            final = program.to_executorch(config=config)
        lowered.settled = bool(settled)
        lowered.program = parked(bytes(final.buffer))
        if placement.external:
            lowered.weights = parked(bytes(final._tensor_data[WEIGHTS_TAG]))
    except Exception as error:
        raise _Failed(executorch_failure(error, joint, provenance)) from error
    lowered.emitted = final.exported_program()
    lowered.instructions = tuple(_instructions(final, joint, provenance))
    return True


def _instructions(final: Any, joint: Any, provenance: Provenance) -> Iterator[Instruction]:
    """Pair the instructions of the program with the nodes they were emitted from."""
    plan = next(p for p in final.executorch_program.execution_plan if p.name == "forward")
    nodes = kernel_nodes(final.exported_program())
    joint_nodes = {node.name: node for node in joint.graph.nodes}
    graph_ids = {id(joint.graph), id(joint.graph_module.graph)}
    for index, instruction in enumerate(plan.chains[0].instructions):
        op_index = getattr(instruction.instr_args, "op_index", None)
        if op_index is None:
            yield Instruction(index, type(instruction.instr_args).__name__)
            continue
        operator = plan.operators[op_index]
        op = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
        node = nodes.get(index)
        # A pairing that does not fit would name the wrong module: better name none.
        if node is None or str(node.target).partition(".")[2] != op.partition("::")[2]:
            plain = op.partition("::")[2]
            if node is None or node.target._schema.name.partition("::")[2] != plain.split(".")[0]:
                yield Instruction(index, op)
                continue
        origin = _joint_name(node, graph_ids, joint_nodes)
        source = provenance.source(node)
        made = joint_nodes.get(origin)
        backward = made is not None and made.meta.get("partitioner_tag") == "is_backward"
        if not source.module and made is not None:
            source = provenance.source(made)
        yield Instruction(index, op, origin, source, backward)


def kernel_nodes(emitted: Any) -> dict[int, Any]:
    """Nodes that became a kernel call, by instruction.

    The emitter leaves the instruction's index in `debug_handle`; a node that never had a handle
    (the copy into a mutated buffer) comes directly after the instruction before it.
    """
    import torch

    nodes: dict[int, Any] = {}
    last = -1
    for node in emitted.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        last = node.meta.get("debug_handle", last + 1)
        nodes[last] = node
    return nodes


def _joint_name(node: Any, graph_ids: set[int], joint_nodes: Mapping[str, Any]) -> str:
    """Follow `from_node` back to the joint graph that was lowered."""
    chain = node.meta.get("from_node")
    while chain:
        if chain[-1].graph_id in graph_ids and chain[-1].name in joint_nodes:
            return str(chain[-1].name)
        chain = chain[-1].from_node
    return ""
