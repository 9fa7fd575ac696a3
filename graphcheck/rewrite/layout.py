"""Every tensor of a graph in the default memory layout.

A memory layout is no part of what a graph computes: shapes, values and gradients are the same in
each. Most kernels want the default one, or read every tensor as if it were in it. So a request for
another layout (`x.to(memory_format=torch.channels_last)`) is turned into one for the default.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

__all__ = ["contiguous_graph_", "is_row_major"]


def is_row_major(tensor: Any) -> bool:
    """Whether dims are in memory in the order of the shape (size-1 dims do not count)."""
    strides = [
        stride
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if not isinstance(size, int) or size > 1
    ]
    return all(
        not (isinstance(a, int) and isinstance(b, int)) or a >= b for a, b in pairwise(strides)
    )


def contiguous_graph_(exported: Any) -> tuple[str, ...]:
    """Ask for the default layout wherever the graph asks for another, in place.

    Returns the names of the nodes changed. Their strides in `meta` are stale afterwards: trace
    the joint graph anew.
    """
    import torch

    others = (torch.channels_last, torch.channels_last_3d)

    def default(value: Any) -> Any:
        return torch.contiguous_format if value in others else value

    changed = []
    for node in exported.graph.nodes:
        if node.op != "call_function":
            continue
        asked = [*node.args, *node.kwargs.values()]
        if not any(isinstance(value, torch.memory_format) and value in others for value in asked):
            continue
        node.args = tuple(
            default(v) if isinstance(v, torch.memory_format) else v for v in node.args
        )
        node.kwargs = {
            key: default(v) if isinstance(v, torch.memory_format) else v
            for key, v in node.kwargs.items()
        }
        changed.append(node.name)
    if changed:
        exported.graph_module.recompile()
    return tuple(changed)
