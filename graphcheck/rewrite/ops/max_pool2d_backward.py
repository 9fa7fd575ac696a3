"""Backward of 2-d max pooling, as a scatter of the gradient to the places of the maxima."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.parts import leading, zeros

__all__ = ["REWRITES"]


def scatter_to_maxima(
    grad: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Any,
) -> Any:
    """grad, indices: [(N,) C, oH, oW]; x: [(N,) C, H, W]; indices count within one H*W plane."""
    import torch

    planes = leading(x, 2)
    empty = zeros([planes, x.shape[-2] * x.shape[-1]], grad.dtype)
    where = indices.reshape(planes, -1)
    summed = torch.ops.aten.scatter_add.default(empty, 1, where, grad.reshape(planes, -1))
    return summed.reshape(x.shape)


REWRITES = (
    Rewrite(
        name="max_pool2d_backward_scatter",
        op="aten.max_pool2d_with_indices_backward.default",
        formula="grad_input[n, c, p] = sum over outputs o with indices[n, c, o] = p of grad[n, c, o]",
        source="definition of the gradient of max, indices as returned by the forward op",
        decompose=scatter_to_maxima,
        memory="one zero plane of the size of the input",
    ),
)
