"""as_strided_scatter: write to places of the storage, given by strides."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def by_scatter(x: Any, src: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """x: dense, in any order of dims; the places of `src` must all be different."""
    import torch

    aten = torch.ops.aten
    numbers = [*x.shape, *x.stride(), *size, *stride, storage_offset or 0]
    if not all(isinstance(number, int) for number in numbers):
        return NotImplemented
    # The storage as one row: x with its dims in the order of its strides.
    order = sorted(range(x.dim()), key=lambda dim: (-x.stride(dim), -x.shape[dim]))
    stored = x.permute(order)
    if not stored.is_contiguous():
        return NotImplemented
    back = [order.index(dim) for dim in range(x.dim())]
    offset = storage_offset or 0
    if _is_row(size, stride) and offset == 0 and src.numel() == x.numel():
        written = src.reshape(-1)
    else:
        places = aten.full.default([], offset, dtype=torch.int64)
        for dim, (count, step) in enumerate(zip(size, stride, strict=True)):
            shape = [1] * len(size)
            shape[dim] = count
            places = places + torch.arange(count, dtype=torch.int64).reshape(shape) * step
        written = aten.scatter.src(stored.reshape(-1), 0, places.reshape(-1), src.reshape(-1))
    return written.reshape(stored.shape).permute(back)


def _is_row(size: Any, stride: Any) -> bool:
    """Whether the strides are those of a row-major tensor."""
    step = 1
    for count, have in zip(reversed(size), reversed(stride), strict=True):
        if count != 1 and have != step:
            return False
        step *= count
    return True


REWRITES = (
    Rewrite(
        name="as_strided_scatter_scatter",
        op="aten.as_strided_scatter.default",
        formula="storage[offset + sum of i_d stride_d] = src[i]; where that is all of it in "
        "order, the result is src itself",
        source="documentation of torch.as_strided_scatter",
        decompose=by_scatter,
        memory="an index per written element, unless all are written in order",
    ),
)
