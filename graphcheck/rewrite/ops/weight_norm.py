"""Weight normalization, forward and backward."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import total, widened

__all__ = ["REWRITES", "backward", "forward"]


def _others(v: Any, dim: int) -> list[int]:
    return [other for other in range(v.dim()) if other != dim % v.dim()]


def forward(v: Any, g: Any, dim: int = 0) -> Any:
    """(g v / |v|, |v|), the norm over all dims but one."""
    import torch

    wide = widened(v)
    square = total(wide * wide, _others(v, dim), True)
    norms = torch.sqrt(square)
    return (wide * (widened(g) / norms)).to(v.dtype), norms


def backward(grad: Any, v: Any, g: Any, norms: Any, dim: int) -> Any:
    """Gradients of direction v and length g."""

    wide_grad, wide_v, wide_norms = widened(grad), widened(v), widened(norms)
    along = total(wide_grad * wide_v, _others(v, dim), True)
    by_length = along / wide_norms
    by_direction = (wide_grad - wide_v * (by_length / wide_norms)) * (widened(g) / wide_norms)
    return by_direction.to(v.dtype), by_length.to(g.dtype)


REWRITES = (
    Rewrite(
        name="weight_norm",
        op="aten._weight_norm_interface.default",
        formula="w = g v / |v|",
        source="Salimans and Kingma, 2016, equation 2",
        decompose=forward,
    ),
    Rewrite(
        name="weight_norm_backward",
        op="aten._weight_norm_interface_backward.default",
        formula="dg = dw . v / |v|; dv = g / |v| (dw - v dg / |v|)",
        source="Salimans and Kingma, 2016, equation 3",
        decompose=backward,
    ),
)
