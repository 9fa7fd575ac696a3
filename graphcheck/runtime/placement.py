"""Where weights and state live in a program: beside it in a file, or in memory that methods share.

ExecuTorch plans trained weights and mutated buffers into the arena of the method that trains them,
among its activations; another method gets copies of its own. Here they go to a buffer of their own
(memory id 2) at the same place in every method, so that an app which hands the same buffer to both
methods trains in the one and predicts in the other. Only the training method carries the initial
data: loading a method copies its data into the memory, and loading the other one later would undo
the training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["WEIGHTS_TAG", "Placement", "place_", "share_state_"]

WEIGHTS_TAG = "weights"
"""Name of the set of external tensors; a program refers to a tensor by its own name alone."""

_TRAINED = "weight_has_gradient"
"""Mark of a placeholder that ExecuTorch plans into memory though it is a parameter
(`exir/passes/weights_to_outputs_pass.py`)."""
_TAG = "constant_tag"
"""Mark of a placeholder whose data is kept outside of the program (`exir/emit/_emitter.py`)."""
_INITIAL = "et_init_buffer"
"""Mark of a buffer that starts with its data."""


@dataclass(frozen=True)
class Placement:
    """Extra methods of a program, by name, that share state; and whether weights are external.

    `methods` are exported programs; they read those of `forward`'s parameters that it trains,
    `trained` by name, and the buffers that it writes, where it has them.
    """

    methods: Mapping[str, Any] = field(default_factory=dict)
    trained: frozenset[str] = frozenset()
    external: bool = False


def share_state_(edge_program: Any, names: frozenset[str]) -> None:
    """Turn the named parameters of a method, as `to_edge` gives it, into buffers, in place.

    A buffer with a place in memory and without initial data is what the emitter makes of state that
    another method owns; it has no such form for a parameter.
    """
    from torch.export.graph_signature import InputKind

    for spec in edge_program.graph_signature.input_specs:
        if spec.kind is InputKind.PARAMETER and spec.target in names:
            spec.kind, spec.persistent = InputKind.BUFFER, True


def place_(config: Any, placement: Placement, joint: Any) -> None:
    """Change an `ExecutorchBackendConfig` so that weights and state go where they should, in place.

    `joint` is the program of `forward`.
    """
    if placement.external:
        config.passes = [*config.passes, *_external_passes([joint, *placement.methods.values()])]
    if placement.external or placement.methods:
        config.memory_planning_pass = _placement_pass(placement)


def _external_passes(programs: Iterable[Any]) -> list[Any]:
    """What weights outside of the program need before memory is planned.

    A view of a weight would be written as another external tensor of that name, of another shape:
    the emitter refuses it. So such a view is one of a copy.
    """
    names = frozenset(
        name
        for program in programs
        for name in (
            *program.graph_signature.inputs_to_parameters,
            *program.graph_signature.inputs_to_buffers,
        )
    )

    def copy_viewed_weights(graph_module: Any) -> Any:
        from executorch.exir.dialects._ops import ops
        from torch.fx.passes.infra.pass_base import PassResult

        changed = False
        for node in list(graph_module.graph.nodes):
            viewed = node.args[0] if node.target == ops.edge.aten.view_copy.default else None
            if viewed is None or viewed.op != "placeholder" or viewed.name not in names:
                continue
            with graph_module.graph.inserting_before(node):
                copied = graph_module.graph.call_function(
                    ops.edge.dim_order_ops._clone_dim_order.default, (viewed,)
                )
            copied.meta = {"val": viewed.meta["val"]}
            node.replace_input_with(viewed, copied)
            changed = True
        graph_module.recompile()
        return PassResult(graph_module, changed)

    return [copy_viewed_weights]


def _placement_pass(placement: Placement) -> Any:
    from executorch.exir.passes import MemoryPlanningPass

    share = bool(placement.methods)

    class Placing(MemoryPlanningPass):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(share_mutable_buffers=share)
            self.trained: dict[str, set[Any]] = {}

        def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
            trains = bool(graph_signature.buffers_to_mutate) or any(
                node.meta.get(_TRAINED) for node in graph_module.graph.nodes
            )
            for node in graph_module.graph.nodes:
                if node.op == "placeholder":
                    self._place(node, graph_signature, trains)
            return super().run(graph_module, graph_signature)

        def _place(self, node: Any, signature: Any, trains: bool) -> None:
            parameter = signature.inputs_to_parameters.get(node.target)
            name = parameter or signature.inputs_to_buffers.get(node.target)
            if name is None:
                return
            if not trains:
                node.meta.pop(_INITIAL, None)
            if share and node.meta.pop(_TRAINED, False):
                self.trained[name] = {node.meta["spec"]}
            # The emitter writes a mutated buffer once more where it is written to, and then without
            # a tag: its initial state stays in the program.
            written = name in signature.buffers_to_mutate.values()
            if placement.external and not written and (trains or name not in self._shared()):
                node.meta[_TAG] = WEIGHTS_TAG

        def _shared(self) -> set[str]:
            return {*self.trained, *self.state.mutable_buffers}

        def run_multimethod(self) -> None:
            self.state.mutable_buffers.update(self.trained)
            super().run_multimethod()

    return Placing()
