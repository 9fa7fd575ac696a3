"""Cauchy noise."""

from __future__ import annotations

import math
from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import plus, times

__all__ = ["REWRITES", "cauchy"]


def cauchy(x: Any, median: float = 0.0, sigma: float = 1.0, generator: Any = None) -> Any:
    """Cauchy noise around `median` with scale `sigma`, in shape and dtype of x."""
    import torch

    draw = torch.ops.aten.rand.default(x.shape, dtype=torch.float32, device=x.device)
    return plus(times(torch.tan(times(plus(draw, -0.5), math.pi)), sigma), median).to(x.dtype)


REWRITES = (
    Rewrite(
        name="cauchy",
        op="aten.cauchy.default",
        formula="median + sigma tan(pi (u - 1/2)), u uniform in [0, 1)",
        source="inverse of the distribution function",
        decompose=cauchy,
    ),
)
