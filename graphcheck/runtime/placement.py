"""Where weights and state live in a program: beside it in a file, or in memory that methods share.

ExecuTorch plans trained weights and mutated buffers into the arena of the method that trains them,
among its activations; another method gets copies of its own. Here they go to a buffer of their own
(memory id 2) at the same place in every method, so that an app which hands the same buffer to both
methods trains in the one and predicts in the other. Only the training method carries the initial
data: loading a method copies its data into the memory, and loading the other one later would undo
the training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["WEIGHTS_TAG", "Placement", "placement_pass", "share_state_"]

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

    @property
    def usual(self) -> bool:
        return not self.methods and not self.external


def share_state_(edge_program: Any, names: frozenset[str]) -> None:
    """Turn the named parameters of a method, as `to_edge` gives it, into buffers, in place.

    A buffer with a place in memory and without initial data is what the emitter makes of state that
    another method owns; it has no such form for a parameter.
    """
    from torch.export.graph_signature import InputKind

    for spec in edge_program.graph_signature.input_specs:
        if spec.kind is InputKind.PARAMETER and spec.target in names:
            spec.kind, spec.persistent = InputKind.BUFFER, True


def placement_pass(placement: Placement) -> Any:
    """The memory planning pass for `ExecutorchBackendConfig.memory_planning_pass`."""
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
            if placement.external and (trains or name not in self._shared()):
                node.meta[_TAG] = WEIGHTS_TAG

        def _shared(self) -> set[str]:
            return {*self.trained, *self.state.mutable_buffers}

        def run_multimethod(self) -> None:
            self.state.mutable_buffers.update(self.trained)
            super().run_multimethod()

    return Placing()
