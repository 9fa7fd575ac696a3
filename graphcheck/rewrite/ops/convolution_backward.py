"""Backward of convolutions whose weight is not 4-d or is transposed."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.convolutions import lowered_backward, transposed_backward
from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def decompose(
    grad: Any,
    x: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Any,
) -> Any:
    """grad: [N, O, *out]; x: [N, C, *in]; weight: [O, C/groups, *kernel], transposed
    [C, O/groups, *kernel]; with 1 to 3 spatial dims. Plain 2-d ones are left alone."""
    dims = weight.dim() - 2
    if dims not in (1, 2, 3) or (dims == 2 and not transposed):
        return NotImplemented
    how = transposed_backward if transposed else lowered_backward
    return how(grad, x, weight, stride, padding, dilation, groups, mask)


REWRITES = (
    Rewrite(
        name="convolution_backward_2d",
        op="aten.convolution_backward.default",
        formula="1-d: 2-d of height 1. Transposed: grad_input = conv(grad, w), grad_weight = that "
        "of conv with input and gradient in each other's place, grad_bias = sum of grad. 3-d: per "
        "depth tap t the 2-d backward of the slices x[d s + t dilation - p] with w[:, :, t], the "
        "input gradients added where the slices came from",
        source="a transposed convolution is the adjoint of a convolution; a 3-d convolution is a "
        "sum of 2-d ones over the depth of its kernel",
        decompose=decompose,
        memory="1-d none; transposed none; 3-d per depth tap a slice of the input and its gradient",
    ),
)
