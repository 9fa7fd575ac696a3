"""The trace itself: export, then the joint forward/backward graph, with provenance kept.

`torch.export.experimental._export_forward_backward` traces twice. The first trace ties every node,
backward ones included, to the forward op it comes from (through autograd's sequence numbers); the
second one calls the first as a plain function and forgets it. `provenance_kept` runs that second
trace through an interpreter which hands each node's metadata on. Every node of the exported program
is marked with its own name before, so that a joint node knows its exported node.

The same hook sees the gradients before torch asserts that there are no holes among them, so it
learns which parameters get none, and lets the trace go on.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from graphcheck.graph.library_branches import values_unread
from graphcheck.graph.module_state import ModuleState
from graphcheck.graph.near import near_modules
from graphcheck.graph.surroundings import Surroundings
from graphcheck.workload.types import Workload

__all__ = [
    "MARK",
    "NEAR",
    "SideEffect",
    "Traced",
    "as_joint",
    "export",
    "kept_whole",
    "provenance_kept",
    "trace_joint",
]

_ASSIGNED = r"The tensor attributes? .* (?:was|were) assigned during export\."
MARK = "graphcheck"
"""Key in `node.meta["custom"]` that holds the name of the exported node."""
NEAR = "graphcheck_near"
"""Key beside it that holds the module as far as it can be told, where the node tells none."""


class SideEffect(Exception):
    """An operator with a side effect, which a joint export has no order for.

    `effect` is the overload that has it, `exported` the name of the exported node it comes from.
    """

    def __init__(self, effect: str, exported: str) -> None:
        super().__init__(f"{effect} has a side effect")
        self.effect = effect
        self.exported = exported


@dataclass
class Traced:
    """An exported program and its joint graph.

    `no_gradient` are the names of trainable parameters that get no gradient; in the joint graph
    a zero tensor that torch would not have made stands for it.
    """

    exported: Any
    joint: Any
    no_gradient: tuple[str, ...]
    strict: bool


def export(workload: Workload, *, strict: bool) -> Any:
    """`torch.export` of the workload; raises whatever torch raises."""
    import torch

    state = ModuleState(workload.module, Surroundings(workload.module))
    with (
        _every_frame_kept(),
        values_unread(),
        warnings.catch_warnings(),
        contextlib.ExitStack() as after,
    ):
        # Tracing leaves its fake tensors in attributes and globals that forward assigns.
        after.callback(state.put)
        # Where it makes training wrong, GC016 says so.
        warnings.filterwarnings("ignore", _ASSIGNED, UserWarning)
        return torch.export.export(
            workload.module,
            workload.inputs,
            workload.kwargs or None,
            dynamic_shapes=workload.dynamic_shapes,
            strict=strict,
        )


@contextlib.contextmanager
def _every_frame_kept() -> Iterator[None]:
    """Keep frames of the user's helper functions in stack traces.

    Export keeps those of functions called `forward` only, which hides the line that makes the call.
    """
    from torch.fx.proxy import TracerBase

    original = getattr(TracerBase, "_filter_traceback_frames", None)
    if original is None:
        yield
        return

    def whole(self: Any, summary: Any) -> Any:
        kept = getattr(self, "_record_forward_stack_traces_only", None)
        self._record_forward_stack_traces_only = False
        try:
            return original(self, summary)
        finally:
            if kept is not None:
                self._record_forward_stack_traces_only = kept

    TracerBase._filter_traceback_frames = whole
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = original


def trace_joint(exported: Any, *, strict: bool) -> Traced:
    """The joint graph of an exported program whose output 0 is the loss.

    Raises whatever torch raises when the loss is no scalar or nothing is differentiable, SideEffect
    where the graph has an operator with one.
    """
    from torch.export.experimental import _export_forward_backward

    for node in exported.graph.nodes:
        if node.op == "call_function":
            node.meta["custom"] = {**(node.meta.get("custom") or {}), MARK: node.name}
    with provenance_kept() as holes:
        joint = _export_forward_backward(exported)
    # Parameters come first among the inputs, in the order of the signature.
    names = list(exported.graph_signature.parameters)
    return Traced(exported, joint, tuple(names[i] for i in sorted(holes) if i < len(names)), strict)


@contextlib.contextmanager
def kept_whole(ops: Collection[str]) -> Iterator[None]:
    """Joint traces do not decompose these overloads (`aten.native_batch_norm_backward.default`)."""
    import torch._decomp

    original = torch._decomp.core_aten_decompositions
    if not ops:
        yield
        return

    def fewer() -> Any:
        return {op: how for op, how in original().items() if str(op) not in ops}

    torch._decomp.core_aten_decompositions = fewer
    try:
        yield
    finally:
        torch._decomp.core_aten_decompositions = original


def as_joint(program: Any, *, strict: bool) -> Traced:
    """A program that somebody else made joint: what is only needed for gradients is backward.

    It has no exported program to look modules up in, so each node stands for itself; where it
    tells no modules, each gets that of the weight it is nearest to.
    """
    from torch.export.graph_signature import OutputKind

    ends = {
        spec.arg.name
        for spec in program.graph_signature.output_specs
        if spec.kind != OutputKind.GRADIENT_TO_PARAMETER and hasattr(spec.arg, "name")
    }
    nodes = {node.name: node for node in program.graph.nodes}
    forward: set[Any] = set()
    for node in reversed(program.graph.nodes):
        if node.name in ends or any(user in forward for user in node.users):
            forward.add(node)
        if node.op == "call_function":
            node.meta["custom"] = {MARK: node.name}
            if node not in forward:
                node.meta["partitioner_tag"] = "is_backward"
    for name, module in near_modules(program).items():
        nodes[name].meta["custom"][NEAR] = module
    return Traced(program, program, (), strict)


@contextlib.contextmanager
def provenance_kept() -> Iterator[set[int]]:
    """Keep node metadata through the joint trace; yields positions of inputs without gradient.

    Falls back to torch's own behaviour, without provenance, where its internals have moved.
    """
    import torch
    import torch._functorch.aot_autograd as aot
    import torch.fx.traceback

    holes: set[int] = set()
    original = getattr(aot, "_aot_export_function", None)
    if original is None:
        yield holes
        return

    def export_function(*args: Any, **kwargs: Any) -> Any:
        graph_module, *rest = original(*args, **kwargs)
        if not kwargs.get("trace_joint"):
            return (graph_module, *rest)
        _refuse_side_effects(graph_module)

        def run(primals: Any, tangents: Any) -> Any:
            with torch.fx.traceback.preserve_node_meta():
                outputs, gradients = torch.fx.Interpreter(graph_module).run(primals, tangents)
            gradients = list(gradients)
            for position, (primal, gradient) in enumerate(zip(primals, gradients, strict=True)):
                if gradient is None and isinstance(primal, torch.Tensor) and primal.requires_grad:
                    holes.add(position)
                    gradients[position] = torch.zeros_like(primal)
            return outputs, gradients

        return (run, *rest)

    aot._aot_export_function = export_function
    try:
        yield holes
    finally:
        aot._aot_export_function = original


def _refuse_side_effects(joint: Any) -> None:
    """Raise SideEffect where the graph takes tokens that keep side effects in order.

    torch 2.14 calls the graph without them, and then fails on a number of arguments.
    """
    import torch

    for node in joint.graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.higher_order.with_effects:
            effect = str(node.args[1])
            raise SideEffect(effect, (node.meta.get("custom") or {}).get(MARK, ""))
