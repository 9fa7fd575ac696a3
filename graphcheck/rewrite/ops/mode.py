"""The most frequent value along a dim: count the equals of each element."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def by_count(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent values, and the last index that has it."""
    import torch

    aten = torch.ops.aten
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    dim = dim % x.dim()
    moved = x.transpose(dim, -1)
    equal = (moved.unsqueeze(-1) == moved.unsqueeze(-2)).to(torch.int64).unsqueeze(-1)
    # Counted over two dims: an integer sum over one dim is taken in float.
    count = aten.sum.dim_IntList(equal, [-2, -1], False)
    candidate = count == aten.amax.default(count, [-1], True)
    limit = float("inf") if x.dtype.is_floating_point else torch.iinfo(x.dtype).max
    value = aten.amin.default(
        torch.where(candidate, moved, torch.full_like(moved, limit)), [-1], True
    )
    places = torch.arange(moved.shape[-1], dtype=torch.int64)
    index = aten.amax.default(
        torch.where(moved == value, places, torch.zeros_like(places)), [-1], True
    )
    value, index = value.transpose(dim, -1), index.transpose(dim, -1)
    if keepdim:
        return value.contiguous(), index.contiguous()
    return value.squeeze(dim).contiguous(), index.squeeze(dim).contiguous()


REWRITES = (
    Rewrite(
        name="mode_count",
        op="aten.mode.default",
        formula="c_i = number of j with x_j = x_i; the least x_i with c_i = max c, the last such i",
        source="documentation of torch.mode",
        decompose=by_count,
        memory="one integer per pair of elements along the dim",
        remark="a NaN equals nothing, so that it is never counted",
    ),
)
