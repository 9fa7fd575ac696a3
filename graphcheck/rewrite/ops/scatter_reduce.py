"""scatter_reduce: sums by scatter_add, the others over a table of who goes where."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def decompose(
    x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True
) -> Any:
    """x: the target; index and src: as many dims, src at least as large as index."""
    import torch

    aten = torch.ops.aten
    if x.dim() == 0:
        return NotImplemented
    dim = dim % x.dim()
    if tuple(src.shape) != tuple(index.shape):
        for place, size in enumerate(index.shape):
            src = aten.slice.Tensor(src, place, 0, size)
    neutral = _neutral(reduce, x.dtype)
    base = x
    if not include_self:
        base = aten.scatter.value(x, dim, index, neutral)
    if reduce == "sum":
        return aten.scatter_add.default(base, dim, index, src)
    if reduce == "mean":
        total = aten.scatter_add.default(base, dim, index, src)
        own = aten.full.default(list(x.shape), 1 if include_self else 0, dtype=x.dtype)
        ones = aten.full.default(list(index.shape), 1, dtype=x.dtype)
        count = aten.scatter_add.default(own, dim, index, ones)
        if not include_self:
            count = torch.clamp(count, min=1)
        if x.dtype.is_floating_point:
            return total / count
        return torch.div(total, count, rounding_mode="floor")
    if reduce not in ("prod", "amax", "amin"):
        return NotImplemented
    return _by_table(x, base, dim, index, src, reduce, neutral)


def _by_table(x: Any, base: Any, dim: int, index: Any, src: Any, reduce: str, neutral: Any) -> Any:
    import torch

    aten = torch.ops.aten
    # [..., m] against the n places of x: [..., n, m], reduced over m.
    places = torch.arange(x.shape[dim], dtype=index.dtype).reshape(-1, 1)
    goes = index.transpose(dim, -1).unsqueeze(-2) == places
    fill = aten.full.default([], neutral, dtype=x.dtype)
    table = torch.where(goes, src.transpose(dim, -1).unsqueeze(-2), fill)
    if reduce == "prod":
        part = aten.prod.dim_int(table, -1)
    else:
        part = (torch.amax if reduce == "amax" else torch.amin)(table, -1)
    part = part.transpose(dim, -1)
    if tuple(part.shape) != tuple(x.shape):
        pads = []
        for have, want in zip(reversed(part.shape), reversed(x.shape), strict=True):
            pads += [0, want - have]
        part = aten.constant_pad_nd.default(part.contiguous(), pads, neutral)
    if reduce == "prod":
        return base * part
    return (torch.maximum if reduce == "amax" else torch.minimum)(base, part)


def _neutral(reduce: str, dtype: Any) -> Any:
    import torch

    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.is_floating_point:
        return float("-inf") if reduce == "amax" else float("inf")
    limits = torch.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


REWRITES = (
    Rewrite(
        name="scatter_reduce_table",
        op="aten.scatter_reduce.two",
        formula="sum: scatter_add; mean: scatter_add over scatter_add of ones; amax, amin, prod: "
        "y[n] = reduction over m of (src[m] if index[m] = n else the neutral element), with x[n]",
        source="documentation of torch.Tensor.scatter_reduce",
        decompose=decompose,
        memory="sum none, mean two tensors like x; amax, amin, prod a table of the size of src "
        "times the number of places",
    ),
)
