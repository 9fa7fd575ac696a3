"""Exponential noise, as Gumbel softmax draws it."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import times

__all__ = ["REWRITES", "exponential"]

_STEP = 2.0**-24
"""The distance of neighbouring float32 uniforms."""


def exponential(x: Any, lambd: float = 1.0, generator: Any = None) -> Any:
    """Exponential noise of rate `lambd`, in shape and dtype of x.

    Strictly positive and finite, as torch's: Gumbel noise takes its logarithm.
    """
    import torch

    draw = torch.ops.aten.rand.default(x.shape, dtype=torch.float32, device=x.device)
    inner = torch.ops.aten.clamp.default(1 - draw, _STEP, 1 - _STEP)
    return times(torch.log(inner), -1 / lambd).to(x.dtype)


REWRITES = (
    Rewrite(
        name="exponential",
        op="aten.exponential.default",
        formula="-log(1 - u) / lambd, u uniform in (0, 1)",
        source="inverse of the distribution function",
        decompose=exponential,
    ),
)
