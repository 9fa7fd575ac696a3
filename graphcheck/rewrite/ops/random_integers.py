"""Random integers and permutations, made from uniform numbers."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import times

__all__ = [
    "REWRITES",
    "randint",
    "randint_between",
    "randint_like",
    "randint_like_between",
    "randperm",
]

_MOST = 1 << 20
"""A float32 uniform has 2**24 values: among more integers than this, some come visibly oftener."""


def randint(high: Any, size: Any, **options: Any) -> Any:
    """Integers 0 <= n < high."""
    return randint_between(0, high, size, **options)


def randint_between(
    low: Any, high: Any, size: Any, *, dtype: Any = None, device: Any = None, **options: Any
) -> Any:
    """Integers low <= n < high. Not for more than 2**20 of them."""
    import torch

    if not (isinstance(low, int) and isinstance(high, int) and 0 < high - low <= _MOST):
        return NotImplemented
    draw = torch.ops.aten.rand.default(size, dtype=torch.float32, device=device)
    whole = times(draw, float(high - low)).to(torch.int64)
    # Rounding could reach the end of the range.
    inside = torch.ops.aten.clamp.default(whole, 0, high - low - 1)
    shifted = torch.ops.aten.add.Scalar(inside, low)
    return shifted if dtype in (None, torch.int64) else shifted.to(dtype)


def randint_like(x: Any, high: Any, *, dtype: Any = None, **options: Any) -> Any:
    """Integers 0 <= n < high in the shape and, unless told, the dtype of x."""
    return randint_like_between(x, 0, high, dtype=dtype)


def randint_like_between(x: Any, low: Any, high: Any, *, dtype: Any = None, **options: Any) -> Any:
    """Integers low <= n < high in the shape and, unless told, the dtype of x."""
    return randint_between(low, high, x.shape, dtype=dtype or x.dtype, device=x.device)


def randperm(n: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """The order of n uniform numbers. Not for more than 2**20."""
    import torch

    if not (isinstance(n, int) and 0 < n <= _MOST):
        return NotImplemented
    draw = torch.ops.aten.rand.default([n], dtype=torch.float32, device=device)
    order = torch.ops.aten.topk.default(draw, n, 0)[1]
    return order if dtype in (None, torch.int64) else order.to(dtype)


REWRITES = (
    Rewrite(
        name="randint",
        op="aten.randint.default",
        formula="floor(high u), u uniform in [0, 1)",
        source="torch.randint",
        decompose=randint,
    ),
    Rewrite(
        name="randint_between",
        op="aten.randint.low",
        formula="low + floor((high - low) u), u uniform in [0, 1)",
        source="torch.randint",
        decompose=randint_between,
    ),
    Rewrite(
        name="randint_like",
        op="aten.randint_like.default",
        formula="floor(high u), u uniform in [0, 1)",
        source="torch.randint_like",
        decompose=randint_like,
    ),
    Rewrite(
        name="randint_like_between",
        op="aten.randint_like.low_dtype",
        formula="low + floor((high - low) u), u uniform in [0, 1)",
        source="torch.randint_like",
        decompose=randint_like_between,
    ),
    Rewrite(
        name="randperm",
        op="aten.randperm.default",
        formula="the order of n uniform numbers",
        source="torch.randperm; all orders are equally likely but where numbers tie",
        decompose=randperm,
    ),
)
