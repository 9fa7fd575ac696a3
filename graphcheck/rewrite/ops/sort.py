"""Stable sort, by two calls of topk: of the values, then of the order of equal ones."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def by_topk(x: Any, dim: int = -1, descending: bool = False) -> Any:
    """Values and indices, both like x; equal values keep their order (NaN counts as largest)."""
    import torch

    aten = torch.ops.aten
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    dim = dim % x.dim()
    count = x.shape[dim]
    values, indices = aten.topk.default(x, count, dim, descending, True)
    # topk leaves the order of equal values open: number the runs of equal values, and sort the
    # numbers of the elements within each run.
    before = aten.slice.Tensor(values, dim, 0, count - 1)
    after = aten.slice.Tensor(values, dim, 1, count)
    starts = (after != before).to(torch.int64)
    first = aten.full.default([*x.shape[:dim], 1, *x.shape[dim + 1 :]], 0, dtype=torch.int64)
    run = aten.cumsum.default(aten.cat.default([first, starts], dim), dim)
    key = aten.topk.default(run * count + indices, count, dim, False, True)[0]
    return values, key - run * count


def stable(x: Any, *, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    """The overload that asks for stability."""
    return by_topk(x, dim, descending)


REWRITES = tuple(
    Rewrite(
        name=name,
        op=op,
        formula="values = topk(x, n); run = number of changes of value before a place; index = "
        "sort(run n + index) - run n, whose keys are all different",
        source="topk of all elements sorts them, but leaves the order of ties open",
        decompose=decompose,
        memory="six integer tensors of the size of the input",
    )
    for name, op, decompose in (
        ("sort_topk", "aten.sort.default", by_topk),
        ("sort_stable_topk", "aten.sort.stable", stable),
    )
)
