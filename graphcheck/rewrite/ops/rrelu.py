"""Randomized leaky ReLU, forward and backward."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import number, plus, times, wide_dtype

__all__ = ["REWRITES", "backward", "forward"]


def forward(
    x: Any,
    noise: Any,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """(result, the slopes drawn: 1 where x is positive)."""
    import torch

    if not training:
        slope = (lower + upper) / 2
        return torch.where(x > 0, x, times(x, slope)), noise.clone()
    dtype = wide_dtype(x)
    draw = torch.ops.aten.rand.default(x.shape, dtype=torch.float32, device=x.device)
    slopes = plus(times(draw, upper - lower), lower).to(dtype)
    drawn = torch.where(x <= 0, slopes, number(1, slopes)).to(x.dtype)
    return x * drawn, drawn


def backward(
    grad: Any,
    x: Any,
    noise: Any,
    lower: float,
    upper: float,
    training: bool,
    self_is_result: bool,
) -> Any:
    """Gradient of x."""
    import torch

    if training and upper - lower > 1e-6:
        return grad * noise
    return torch.where(x > 0, grad, times(grad, (lower + upper) / 2))


REWRITES = (
    Rewrite(
        name="rrelu",
        op="aten.rrelu_with_noise_functional.default",
        formula="r = lower + (upper - lower) u where x <= 0, else 1; y = r x; "
        "in evaluation r = (lower + upper) / 2",
        source="Xu et al., 2015, section 2.4; torch.nn.RReLU",
        decompose=forward,
    ),
    Rewrite(
        name="rrelu_backward",
        op="aten.rrelu_with_noise_backward.default",
        formula="g r with the slopes r of the forward pass",
        source="chain rule",
        decompose=backward,
    ),
)
