"""The k-th smallest value and medians, by topk."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def kth(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Value and index of rank k >= 1 along dim; NaN counts as largest."""
    import torch

    aten = torch.ops.aten
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    dim = dim % x.dim()
    # The k smallest, in ascending order: the last of them.
    values, indices = aten.topk.default(x, k, dim, False, True)
    value = aten.slice.Tensor(values, dim, k - 1, k)
    index = aten.slice.Tensor(indices, dim, k - 1, k)
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


def median_dim(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The lower median; where there is a NaN, the first NaN."""
    import torch

    aten = torch.ops.aten
    if x.dim() == 0:
        return kth(x, 1)
    dim = dim % x.dim()
    value, index = kth(x, (x.shape[dim] + 1) // 2, dim, True)
    if x.dtype.is_floating_point:
        nan = torch.isnan(x)
        places = torch.arange(x.shape[dim], dtype=torch.int64).reshape(
            [-1 if one == dim else 1 for one in range(x.dim())]
        )
        count = x.shape[dim]
        first = aten.amin.default(
            torch.where(nan, places, torch.full_like(places, count)), [dim], True
        )
        found = first < count
        value = torch.where(found, torch.full_like(value, float("nan")), value)
        index = torch.where(found, first, index)
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


def median(x: Any) -> Any:
    """The lower median of all elements; NaN if there is one."""
    return median_dim(x.reshape(-1), 0)[0]


def nanmedian_dim(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The lower median of what is no NaN; NaN where all are."""
    import torch

    aten = torch.ops.aten
    if x.dim() == 0:
        return kth(x, 1)
    dim = dim % x.dim()
    # NaN sorts last. Counted over two dims: an integer sum over one dim is taken in float.
    values, indices = aten.topk.default(x, x.shape[dim], dim, False, True)
    numbers = torch.logical_not(torch.isnan(x)).to(torch.int64).unsqueeze(0)
    count = aten.sum.dim_IntList(numbers, [0, dim + 1], False).unsqueeze(dim)
    place = torch.clamp((count - 1) // 2, 0)
    value, index = aten.gather.default(values, dim, place), aten.gather.default(indices, dim, place)
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


def nanmedian(x: Any) -> Any:
    """The lower median of all elements that are no NaN."""
    return nanmedian_dim(x.reshape(-1), 0)[0]


REWRITES = tuple(
    Rewrite(
        name=f"{name}_topk",
        op=op,
        formula="value and index at place k of the ascending topk along the dim",
        source="documentation of torch.kthvalue, torch.median and torch.nanmedian",
        decompose=decompose,
        memory="the values and indices that topk returns",
        remark="of equal values eager and topk may name different ones: the value is the same, its "
        "gradient then goes to another of the equal elements",
    )
    for name, op, decompose in (
        ("kthvalue", "aten.kthvalue.default", kth),
        ("median_dim", "aten.median.dim", median_dim),
        ("median", "aten.median.default", median),
        ("nanmedian_dim", "aten.nanmedian.dim", nanmedian_dim),
        ("nanmedian", "aten.nanmedian.default", nanmedian),
    )
)
