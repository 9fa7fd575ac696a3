"""3-d average pooling and its backward, as shifted sums, one dim after the other."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.windows import (
    is_tiling,
    mean_gradient,
    pool_sizes,
    pooled,
    pooled_sizes,
    spread,
    unpooled,
)

__all__ = ["REWRITES"]


def forward(
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: Any = None,
) -> Any:
    """x: [(N,) C, D, H, W]."""
    sizes = pool_sizes(kernel, stride, padding, 3)
    outputs = pooled_sizes(x.shape[-3:], *sizes, ceil_mode)
    summed = pooled(x, outputs, *sizes)
    return mean_gradient(summed, x, *sizes, count_include_pad, divisor)


def backward(
    grad: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: Any,
) -> Any:
    """grad: [(N,) C, oD, oH, oW]; x: [(N,) C, D, H, W]."""
    sizes = pool_sizes(kernel, stride, padding, 3)
    grad = mean_gradient(grad, x, *sizes, count_include_pad, divisor)
    if is_tiling(*sizes, x.shape[-3:], grad.shape[-3:]):
        return spread(grad, sizes[0])
    return unpooled(grad, x.shape[-3:], *sizes)


REWRITES = (
    Rewrite(
        name="avg_pool3d_shifts",
        op="aten.avg_pool3d.default",
        formula="y[o] = sum over t < k of x[o s + t - p], dim by dim, over the count of the window",
        source="definition of average pooling; the sum over a box separates",
        decompose=forward,
        memory="one padded copy and one sum per dim",
    ),
    Rewrite(
        name="avg_pool3d_backward_shifts",
        op="aten.avg_pool3d_backward.default",
        formula="grad_input[i] = sum over t < k of z[i + p - t], dim by dim, where z is grad over "
        "the count of its window with stride - 1 zeros between the elements",
        source="adjoint of the forward",
        decompose=backward,
        memory="gradient with zeros between its elements, and one sum per dim",
    ),
)
