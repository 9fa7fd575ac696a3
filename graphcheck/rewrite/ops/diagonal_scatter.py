"""Write a diagonal: a mask chooses between the tensor and the source."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def by_mask(x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """x with its diagonal (over dim1 and dim2) replaced; source has the diagonal as last dim."""
    import torch

    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    others = [dim for dim in range(x.dim()) if dim not in (dim1, dim2)]
    order = [*others, dim1, dim2]
    moved = torch.ops.aten.permute.default(x, order)
    rows, columns = moved.shape[-2], moved.shape[-1]
    length = source.shape[-1]
    if length == 0:
        return x.clone()
    i = torch.arange(rows, dtype=torch.int64).unsqueeze(-1)
    j = torch.arange(columns, dtype=torch.int64).unsqueeze(0)
    mask = (j - i) == offset
    # Entry k of the diagonal is in row k or, below the main diagonal, in column k.
    count = rows if offset >= 0 else columns
    places = torch.clamp(torch.arange(count, dtype=torch.int64), 0, length - 1)
    spread = torch.ops.aten.index_select.default(source, source.dim() - 1, places)
    spread = spread.unsqueeze(-1 if offset >= 0 else -2)
    result = torch.where(mask, spread, moved)
    back = [order.index(dim) for dim in range(x.dim())]
    return torch.ops.aten.permute.default(result, back).contiguous()


REWRITES = (
    Rewrite(
        name="diagonal_scatter_mask",
        op="aten.diagonal_scatter.default",
        formula="y_ij = s_min(i, j) where j - i = offset, else x_ij",
        source="documentation of torch.diagonal_scatter",
        decompose=by_mask,
        memory="the source spread over the rows or columns",
    ),
)
