"""3-d adaptive average pooling and its backward, one dim after the other."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.windows import adaptive_gradient, adaptive_mean

__all__ = ["REWRITES"]


def means(x: Any, output_size: Any) -> Any:
    """x: [(N,) C, D, H, W]."""
    return adaptive_mean(x, list(output_size))


def products(grad: Any, x: Any) -> Any:
    """grad: [(N,) C, oD, oH, oW]; x: [(N,) C, D, H, W]."""
    return adaptive_gradient(grad, x, 3)


_SOURCE = "definition of adaptive pooling in the documentation of torch"

REWRITES = (
    Rewrite(
        name="adaptive_avg_pool3d_products",
        op="aten._adaptive_avg_pool3d.default",
        formula="y = x A_D A_H A_W, A[i, o] = 1 / (end(o) - start(o)) for start(o) <= i < end(o)",
        source=_SOURCE,
        decompose=means,
        memory="one matrix and one transposed copy of the input per dim",
    ),
    Rewrite(
        name="adaptive_avg_pool3d_backward_products",
        op="aten._adaptive_avg_pool3d_backward.default",
        formula="grad_input = grad A_D^T A_H^T A_W^T, with the matrices of the forward",
        source=_SOURCE,
        decompose=products,
        memory="one matrix per dim that does not divide evenly, transposed copies of the gradient",
    ),
)
