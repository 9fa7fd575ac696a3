"""Backward of 2-d adaptive average pooling, as two matrix products."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.windows import adaptive_gradient

__all__ = ["REWRITES"]


def products(grad: Any, x: Any) -> Any:
    """grad: [(N,) C, oH, oW]; x: [(N,) C, H, W]."""
    return adaptive_gradient(grad, x, 2)


REWRITES = (
    Rewrite(
        name="adaptive_avg_pool2d_backward_products",
        op="aten._adaptive_avg_pool2d_backward.default",
        formula="grad_input = A_H^T grad A_W, A[o, i] = 1 / (end(o) - start(o)) for start(o) <= i "
        "< end(o), start = floor(o n / out), end = ceil((o + 1) n / out); where out divides n, "
        "each gradient over k*k repeated k times per dim",
        source="definition of adaptive pooling in the documentation of torch",
        decompose=products,
        memory="one matrix per dim that does not divide evenly, transposed copies of the gradient",
    ),
)
