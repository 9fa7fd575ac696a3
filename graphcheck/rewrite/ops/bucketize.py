"""bucketize and searchsorted: count the boundaries that lie before a value."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def by_count(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """x: any shape; boundaries: [n], ascending. NaN lies behind all boundaries."""
    return _counted(x.unsqueeze(-1), boundaries, out_int32, right)


def scalar_by_count(
    x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False
) -> Any:
    """x: a number. The result has no dims."""
    import torch

    value = torch.full([1], x, dtype=_of_number(x, boundaries))
    return _counted(value, boundaries, out_int32, right)


def searched(
    sorted_sequence: Any,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """sorted_sequence: [..., n] with the leading dims of x [..., m], or [n]."""
    import torch

    if sorter is not None:
        sorted_sequence = torch.ops.aten.gather.default(sorted_sequence, -1, sorter)
    if sorted_sequence.dim() > 1:
        sorted_sequence = sorted_sequence.unsqueeze(-2)
    return _counted(x.unsqueeze(-1), sorted_sequence, out_int32, right or side == "right")


def scalar_searched(
    sorted_sequence: Any,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """x: a number; sorted_sequence: [n]."""
    import torch

    if sorter is not None:
        sorted_sequence = torch.ops.aten.gather.default(sorted_sequence, -1, sorter)
    value = torch.full([1], x, dtype=_of_number(x, sorted_sequence))
    return _counted(value, sorted_sequence, out_int32, right or side == "right")


def _of_number(x: Any, boundaries: Any) -> Any:
    import torch

    if isinstance(x, float) and not boundaries.dtype.is_floating_point:
        return torch.get_default_dtype()
    return boundaries.dtype


def _counted(value: Any, boundaries: Any, out_int32: bool, right: bool) -> Any:
    import torch

    behind = (boundaries > value) if right else (boundaries >= value)
    # Counted in two dims: the sum over one dim of integers is taken in float.
    before = torch.logical_not(behind).to(torch.int64).unsqueeze(-1)
    count = before.sum([-2, -1])
    return count.to(torch.int32) if out_int32 else count


REWRITES = tuple(
    Rewrite(
        name=name,
        op=op,
        formula="number of boundaries b with not (b >= x), or not (b > x) with right",
        source="documentation of torch.bucketize and torch.searchsorted",
        decompose=decompose,
        memory="one integer per pair of element and boundary",
    )
    for name, op, decompose in (
        ("bucketize_count", "aten.bucketize.Tensor", by_count),
        ("bucketize_scalar_count", "aten.bucketize.Scalar", scalar_by_count),
        ("searchsorted_count", "aten.searchsorted.Tensor", searched),
        ("searchsorted_scalar_count", "aten.searchsorted.Scalar", scalar_searched),
    )
)
