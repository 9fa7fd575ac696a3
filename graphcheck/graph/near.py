"""Modules of a joint program that tells none: `torch.export` saves it without them.

Each op gets the module of the weight that it reads, or of the one before it (`after conv1`).
"""

from __future__ import annotations

from typing import Any

__all__ = ["near_modules"]

_SAME_WEIGHT = ("permute", "transpose", "t", "view", "alias", "detach", "_to_copy", "clone")


def near_modules(program: Any) -> dict[str, str]:
    """By node name, in a program none of whose ops names a module; {} where one does."""
    ops = [node for node in program.graph.nodes if node.op == "call_function"]
    if any(node.meta.get("nn_module_stack") for node in ops):
        return {}
    signature = program.graph_signature
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    weights = {name: fqn.rpartition(".")[0] or fqn for name, fqn in held.items()}
    found: dict[str, str] = {}
    forward: set[str] = set()
    for node in ops:
        inputs = [producer.name for producer in node.all_input_nodes]
        owners = [weights[name] for name in inputs if name in weights]
        kind = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
        if owners and len(inputs) == 1 and kind in _SAME_WEIGHT:
            weights[node.name] = owners[0]
        if node.meta.get("partitioner_tag") != "is_backward":
            forward.add(node.name)
        # What a gradient reads of the forward pass tells more than the gradient before it.
        known = [name for name in inputs if found.get(name)]
        before = [name for name in known if name in forward] or known
        if owners:
            found[node.name] = owners[0]
        elif before:
            found[node.name] = f"after {found[before[-1]].removeprefix('after ')}"
    return found
