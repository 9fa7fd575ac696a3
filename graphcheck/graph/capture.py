"""From a `Workload` to a `JointGraph`: trace, then write down what is there as plain facts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from graphcheck.errors import ModelError
from graphcheck.graph.assigned_buffers import (
    as_export_names_them_,
    assignments_written,
    dropped_assignments,
    keep_saved_values,
    was_modified,
)
from graphcheck.graph.data_sizes import from_data
from graphcheck.graph.facts import (
    buffer_facts,
    evaluating_modules,
    parameter_facts,
    tensor_fact,
    tied_parameters,
)
from graphcheck.graph.input_writes import copy_inputs_, written_inputs
from graphcheck.graph.layout import edge_strides, laid_out_anew
from graphcheck.graph.provenance import Provenance, clean_module_path
from graphcheck.graph.reach import Reach, reach_of_nodes
from graphcheck.graph.recurrent_dropout import lost_dropout
from graphcheck.graph.tied import merge_tied_
from graphcheck.graph.trace import Traced, as_joint, export, trace_joint
from graphcheck.graph.types import JointGraph, OpCall, Source, TensorFact
from graphcheck.worker import progress
from graphcheck.workload.types import Workload
from graphcheck.workload.user_code import describe_exception

__all__ = ["capture", "describe", "exported_program", "joint_program", "trace"]

_NORMS = ("native_group_norm", "native_layer_norm", "_native_batch_norm_legit")


def capture(workload: Workload, *, strict: bool = False) -> JointGraph:
    """Trace the workload and describe its joint graph; `strict` asks for strict export first.

    Raises ModelError with the GC0 code of the reason when it cannot be exported or differentiated.
    """
    known = workload.example_loss is not None and math.isfinite(workload.example_loss)
    graph = describe(trace(workload, strict=strict), workload, loss=not known)
    if known or graph.loss is None or graph.loss.node in graph.example_facts:
        return graph
    what = "the loss on the example data", "the graph could not be run on them in eager PyTorch"
    return replace(graph, not_checked=(*graph.not_checked, what))


def trace(workload: Workload, *, strict: bool = False) -> Traced:
    """Export and differentiate. Raises ModelError."""
    exported, strict = exported_program(workload, strict=strict)
    return joint_program(exported, workload, strict=strict)


def exported_program(workload: Workload, *, strict: bool = False) -> tuple[Any, bool]:
    """The exported program, and whether it was traced strictly.

    Strict tracing is for tied weights and for what non-strict export cannot do (and the other way
    round); where it drops an assignment to a buffer, non-strict export is asked. Raises ModelError.
    """
    from graphcheck.graph.diagnose import diagnose_export, worth_retrying

    if workload.exported is not None:
        if not workload.joint:
            merge_tied_(workload.exported, workload.module)
        return workload.exported, strict
    strict = strict or bool(tied_parameters(workload.module))
    progress("exporting the model")
    try:
        exported = export(workload, strict=strict)
    except Exception as error:
        try:
            if not worth_retrying(error):
                raise error
            strict = not strict
            exported = export(workload, strict=strict)
        except Exception:
            raise diagnose_export(error, workload) from error
    if dropped := dropped_assignments(exported, workload):
        exported, strict = _with_assignments(workload, dropped, strict=strict), False
    if not strict:
        merge_tied_(exported, workload.module)
    return exported, strict


def _with_assignments(workload: Workload, dropped: tuple[str, ...], *, strict: bool) -> Any:
    """The program with what forward assigns to these buffers. Raises ModelError."""
    from graphcheck.graph.frozen_buffers import frozen_buffers

    try:
        with assignments_written(workload.module):
            exported = export(workload, strict=False)
    except Exception as error:
        names = ", ".join(clean_module_path(name, workload.prefix) for name in dropped)
        how, why = "strict export" if strict else "export", describe_exception(error)
        raise ModelError(
            f"{how} drops what forward assigns to the buffer {names}, and export with the "
            f"assignment fails: {why}",
            f"Write it in place, which is kept: self.{dropped[0].rpartition('.')[2]}.copy_(...).",
            "GC003",
        ) from error
    as_export_names_them_(exported, dropped)
    lost = dropped_assignments(exported, workload)
    if lost and (problem := frozen_buffers(workload, lost)) is not None:
        raise problem
    return exported


def joint_program(exported: Any, workload: Workload, *, strict: bool) -> Traced:
    """The joint graph of an exported program. Raises ModelError."""
    from graphcheck.graph.diagnose import diagnose_joint

    if workload.joint:
        return as_joint(exported, strict=strict)
    progress("tracing the joint forward/backward graph")
    try:
        traced = _joint(exported, strict=strict)
        if written := written_inputs(traced.joint):
            copy_inputs_(exported, written)
            traced = _joint(exported, strict=strict)
        return traced
    except Exception as error:
        raise diagnose_joint(error, workload, exported) from error


def _joint(exported: Any, *, strict: bool) -> Traced:
    try:
        return trace_joint(exported, strict=strict)
    except RuntimeError as error:
        if not (was_modified(error) and keep_saved_values(exported)):
            raise
        return trace_joint(exported, strict=strict)


def describe(traced: Traced, workload: Workload, *, loss: bool = False) -> JointGraph:
    """The joint graph as facts; holds no torch object.

    With `loss` the forward graph is run on the example data for the value of the loss.
    """
    joint = traced.joint
    prefix = workload.prefix
    provenance = Provenance(traced.exported, prefix, workload.root_type)
    reach = reach_of_nodes(joint, frozenset(traced.no_gradient))
    strides = edge_strides(joint)
    kept = laid_out_anew(joint) if strides else frozenset()
    clean = _Cleaner(prefix)
    calls = tuple(
        _call(index, node, provenance, reach.get(node.name, Reach()), strides, kept, clean)
        for index, node in enumerate(_op_nodes(joint, _fillers(traced)))
    )
    has_norm = any(call.op.removeprefix("aten.").startswith(_NORMS) for call in calls)
    loss_fact = _loss(joint)
    measured = loss_fact.node if loss and loss_fact is not None else ""
    return JointGraph(
        calls=calls,
        parameters=parameter_facts(traced, workload),
        buffers=buffer_facts(traced, workload),
        inputs=tuple(_inputs(joint)),
        loss=loss_fact,
        dynamic=tuple(
            sorted(
                {
                    str(size)
                    for fact in _inputs(joint)
                    for size in fact[1].shape
                    if not isinstance(size, int)
                }
            )
        ),
        strict=traced.strict,
        evaluating=evaluating_modules(workload),
        example_facts=_example_facts(traced, workload, measured) if has_norm or measured else {},
        from_data=from_data(joint),
        control_flow=tuple(_control_flow(joint, provenance)),
        lost_dropout=tuple(lost_dropout(traced.exported, joint, provenance)),
    )


def _control_flow(joint: Any, provenance: Provenance) -> Iterator[tuple[str, Source]]:
    import torch

    for node in joint.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
            yield node.target._name, provenance.source(node)


class _Cleaner:
    """Cuts the wrapper's prefix from names, remembering tuples it has seen."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.seen: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __call__(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if names not in self.seen:
            self.seen[names] = tuple(clean_module_path(name, self.prefix) for name in names)
        return self.seen[names]


def _fillers(traced: Traced) -> set[str]:
    """Nodes that stand for gradients that do not exist."""
    return {
        spec.arg.name
        for spec in traced.joint.graph_signature.output_specs
        if spec.target in traced.no_gradient
    }


def _op_nodes(joint: Any, fillers: set[str]) -> Iterator[Any]:
    import torch

    for node in joint.graph.nodes:
        is_op = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
        if is_op and node.name not in fillers:
            yield node


def _call(
    index: int,
    node: Any,
    provenance: Provenance,
    reach: Reach,
    strides: Mapping[str, Any],
    kept: frozenset[str],
    clean: _Cleaner,
) -> OpCall:
    from graphcheck.opset.out_variant import is_core, out_variant

    target = node.target
    packet = target.overloadpacket
    return OpCall(
        index=index,
        node=node.name,
        op=f"{target.namespace}.{packet.__name__}",
        overload=target._overloadname,
        arguments=_arguments(node, strides),
        outputs=tuple(_outputs(node, strides)),
        source=provenance.source(node),
        backward=node.meta.get("partitioner_tag") == "is_backward",
        gradients=clean(reach.gradients),
        reaches_loss=reach.loss,
        buffers=clean(reach.buffers),
        is_core_aten=is_core(target),
        out_variant=out_variant(target),
        keeps_layout=any(used.name in kept for used in (node, *node.all_input_nodes)),
        origin=provenance.origin(node),
    )


def _arguments(node: Any, strides: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by schema name, defaults filled in."""
    values: dict[str, Any] = {}
    for position, argument in enumerate(node.target._schema.arguments):
        if position < len(node.args) and not argument.kwarg_only:
            value = node.args[position]
        elif argument.name in node.kwargs:
            value = node.kwargs[argument.name]
        else:
            value = argument.default_value
        values[argument.name] = _argument(value, strides)
    return values


def _argument(value: Any, strides: Mapping[str, Any]) -> Any:
    import torch

    if isinstance(value, torch.fx.Node):
        held = value.meta.get("val")
        if isinstance(held, torch.Tensor):
            return tensor_fact(held, value.name, strides.get(value.name))
        return held if isinstance(held, (int, float, bool)) else str(held)
    if isinstance(value, (list, tuple)):
        return [_argument(item, strides) for item in value]
    if value is None or isinstance(value, (int, float, bool, str)):
        return value
    return str(value)


def _outputs(node: Any, strides: Mapping[str, Any]) -> Iterator[TensorFact]:
    import torch

    value = node.meta.get("val")
    known = strides.get(node.name)
    if isinstance(value, torch.Tensor):
        yield tensor_fact(value, node.name, known)
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            if isinstance(item, torch.Tensor):
                yield tensor_fact(item, node.name, known[position] if known else None)


def _inputs(joint: Any) -> Iterator[tuple[str, TensorFact]]:
    import torch

    wanted = set(joint.graph_signature.user_inputs)
    for node in joint.graph.nodes:
        if node.op == "placeholder" and node.name in wanted:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                yield node.name, tensor_fact(value, node.name, tuple(value.stride()))


def _loss(joint: Any) -> TensorFact | None:
    from torch.export.graph_signature import OutputKind

    for spec in joint.graph_signature.output_specs:
        if spec.kind == OutputKind.LOSS_OUTPUT:
            for node in joint.graph.nodes:
                if node.name == spec.arg.name:
                    return tensor_fact(node.meta["val"], node.name)
    return None


def _example_facts(traced: Traced, workload: Workload, loss: str) -> Mapping[str, Any]:
    from graphcheck.graph.arguments import joint_arguments
    from graphcheck.graph.example_facts import measure

    try:
        arguments = joint_arguments(traced, workload)
    except StopIteration:  # a program that was saved without example inputs
        return {}
    return measure(traced.joint.graph_module, arguments, loss)
