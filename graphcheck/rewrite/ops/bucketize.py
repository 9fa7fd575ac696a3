"""bucketize: count the boundaries that lie before a value."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def by_count(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """x: any shape; boundaries: [n], ascending. NaN lies behind all boundaries."""
    import torch

    value = x.unsqueeze(-1)
    behind = (boundaries > value) if right else (boundaries >= value)
    # Counted in two dims: the sum over one dim of integers is taken in float.
    before = torch.logical_not(behind).to(torch.int64).unsqueeze(-1)
    count = before.sum([-2, -1])
    return count.to(torch.int32) if out_int32 else count


REWRITES = (
    Rewrite(
        name="bucketize_count",
        op="aten.bucketize.Tensor",
        formula="number of boundaries b with not (b >= x), or not (b > x) with right",
        source="documentation of torch.bucketize",
        decompose=by_count,
        memory="one integer per pair of element and boundary",
    ),
)
