"""Noise of the shape of a tensor, or filled into one."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import plus, times, wide_dtype

__all__ = ["REWRITES", "rand_like", "randn_like", "uniform"]


def _draw(name: str, x: Any, dtype: Any = None) -> Any:
    import torch

    dtype = x.dtype if dtype is None else dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    make = getattr(torch.ops.aten, name).default
    return make(x.shape, dtype=wide, device=x.device).to(dtype)


def rand_like(x: Any, *, dtype: Any = None, **options: Any) -> Any:
    """Uniform in [0, 1)."""
    return _draw("rand", x, dtype)


def randn_like(x: Any, *, dtype: Any = None, **options: Any) -> Any:
    """Standard normal."""
    return _draw("randn", x, dtype)


def uniform(x: Any, from_: float = 0.0, to: float = 1.0, generator: Any = None) -> Any:
    """Uniform between two bounds, in shape and dtype of x."""
    return plus(times(_draw("rand", x, wide_dtype(x)), to - from_), from_).to(x.dtype)


REWRITES = (
    Rewrite(
        name="rand_like",
        op="aten.rand_like.default",
        formula="rand of the same shape",
        source="torch.rand_like",
        decompose=rand_like,
    ),
    Rewrite(
        name="randn_like",
        op="aten.randn_like.default",
        formula="randn of the same shape",
        source="torch.randn_like",
        decompose=randn_like,
    ),
    Rewrite(
        name="uniform",
        op="aten.uniform.default",
        formula="from + (to - from) u, u uniform in [0, 1)",
        source="torch.Tensor.uniform_",
        decompose=uniform,
    ),
)
