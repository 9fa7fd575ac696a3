"""Sums over one dim in float64 and int64, which the kernel adds up in float32."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES", "over_two_dims"]


def over_two_dims(x: Any, dims: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Another dim, of size 1, is summed along: over two dims the kernel keeps the precision."""
    import torch

    wanted = dtype or (torch.int64 if not x.dtype.is_floating_point else x.dtype)
    if wanted not in (torch.float64, torch.int64) or dims is None or len(dims) != 1 or not x.dim():
        return NotImplemented
    dim = dims[0] % x.dim()
    both = torch.ops.aten.sum.dim_IntList(x.unsqueeze(0), [0, dim + 1], keepdim, dtype=dtype)
    return both.squeeze(0) if keepdim else both


REWRITES = (
    Rewrite(
        name="sum_over_two_dims",
        op="aten.sum.dim_IntList",
        formula="sum over dim d = sum over dims 0 and d + 1 of x with a first dim of size 1",
        source="definition; the kernel's path for one dim accumulates in float",
        decompose=over_two_dims,
        widens=True,
        memory="one copy of the input",
    ),
)
