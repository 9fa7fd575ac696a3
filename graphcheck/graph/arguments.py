"""The real tensors that a joint graph takes, in the order of its placeholders."""

from __future__ import annotations

from typing import Any

from graphcheck.graph.trace import Traced
from graphcheck.workload.types import Workload

__all__ = ["joint_arguments"]


def joint_arguments(traced: Traced, workload: Workload) -> list[Any]:
    """Parameters, buffers, constants and example inputs, one per placeholder."""
    import torch
    from torch.export.graph_signature import InputKind

    exported = traced.exported
    leaves = torch.utils._pytree.tree_leaves((workload.inputs, workload.kwargs))
    inputs = iter(leaves)
    state: dict[str, Any] = dict(exported.state_dict)
    values: list[Any] = []
    for spec in traced.joint.graph_signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            value = state.get(spec.target)
            values.append(value if value is not None else exported.constants[spec.target])
        elif spec.kind == InputKind.USER_INPUT:
            values.append(next(inputs))
        else:
            values.append(traced.joint.constants[spec.target])
    return values
