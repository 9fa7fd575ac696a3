"""Backward of replication padding in 1 to 3 dims: each border is added to the edge it repeats."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.parts import contiguous, positions, separable

__all__ = ["REWRITES"]

# Beyond this many added slices a product with a 0/1 matrix is the smaller graph.
_LONGEST_BORDER = 16


def edges(grad: Any, x: Any, padding: Any) -> Any:
    """grad: x padded; `padding` is (before, after) per dim, the last dim first."""
    dims = len(padding) // 2
    for index in range(dims):
        before, after = padding[2 * index : 2 * index + 2]
        dim = grad.dim() - 1 - index
        size = x.shape[x.dim() - 1 - index]
        if (before, after) == (0, 0):
            continue
        if min(before, after) < 0 or max(before, after) > _LONGEST_BORDER:
            matrices: list[Any] = [None] * (index + 1)
            matrices[0] = _matrix(grad.shape[dim], size, before, grad.dtype)
            grad = separable(grad, matrices)
        else:
            grad = _added(grad, dim, size, before, after)
    return contiguous(grad)


def _added(grad: Any, dim: int, size: Any, before: int, after: int) -> Any:
    import torch

    aten = torch.ops.aten

    def plane(place: Any) -> Any:
        return aten.slice.Tensor(grad, dim, place, place + 1)

    first = plane(0)
    for place in range(1, before + 1):
        first = first + plane(place)
    if size == 1:
        for place in range(before + 1, before + 1 + after):
            first = first + plane(place)
        return first
    last = plane(before + size - 1)
    for place in range(before + size, before + size + after):
        last = last + plane(place)
    if size == 2:
        return aten.cat.default([first, last], dim)
    middle = aten.slice.Tensor(grad, dim, before + 1, before + size - 1)
    return aten.cat.default([first, middle, last], dim)


def _matrix(outputs: Any, inputs: Any, before: int, dtype: Any) -> Any:
    """[outputs, inputs]: 1 where the output repeats the input."""
    import torch

    source = torch.clamp(positions(outputs, dtype, [outputs, 1]) - before, 0, inputs - 1)
    return (source == positions(inputs, dtype)).to(dtype)


REWRITES = tuple(
    Rewrite(
        name=f"replication_pad{dims}d_backward_edges",
        op=f"aten.replication_pad{dims}d_backward.default",
        formula="grad_input[i] = sum of grad over the places that show x[i]: itself, and for the "
        "two edges their borders",
        source="adjoint of the padding",
        decompose=edges,
        memory="one copy of the gradient per padded dim",
        remark="a product with 0/1 matrices takes twice as long: 15.8 against 7.9 ms of CPU "
        "time on [2, 32, 58, 58]",
    )
    for dims in (1, 2, 3)
)
