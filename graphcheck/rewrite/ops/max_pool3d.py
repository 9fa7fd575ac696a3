"""3-d max pooling with indices as 2-d pooling of every depth plane, then maxima over depth."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.parts import leading, per_dim, scatter_planes
from graphcheck.rewrite.windows import pool_sizes, pooled_sizes, with_border

__all__ = ["REWRITES"]


def forward(
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """x: [(N,) C, D, H, W]; indices count within one D*H*W box."""
    import torch

    aten = torch.ops.aten
    k, s, p = pool_sizes(kernel, stride, padding, 3)
    d = per_dim(dilation, 3)
    depth, height, width = x.shape[-3:]
    count = pooled_sizes([depth], k[:1], s[:1], p[:1], ceil_mode, d[:1])[0]
    planes = x.reshape(leading(x, 3), depth, height, width)
    values, indices = aten.max_pool2d_with_indices.default(
        planes, k[1:], s[1:], p[1:], d[1:], ceil_mode
    )
    level = torch.arange(depth, dtype=torch.int64).reshape(1, depth, 1, 1)
    indices = indices + level * (height * width)
    after = (count - 1) * s[0] + d[0] * (k[0] - 1) + 1 - p[0] - depth
    values = with_border(values, 1, p[0], after, float("-inf"))
    indices = with_border(indices, 1, p[0], after)
    best: Any = None
    where: Any = None
    for tap in range(k[0]):
        start = tap * d[0]
        stop = start + (count - 1) * s[0] + 1
        value = aten.slice.Tensor(values, 1, start, stop, s[0])
        index = aten.slice.Tensor(indices, 1, start, stop, s[0])
        if best is None:
            best, where = value, index
            continue
        # The first maximum wins, NaN wins over all; padding never wins over an element.
        later = (value > best) | torch.isnan(value)
        if p[0]:
            place = aten.arange.default(count, dtype=torch.int64).reshape(1, count, 1, 1)
            first = place * s[0] + (start - p[0])
            is_first = (first >= 0) & (first < d[0])
            later = later | is_first
        best = torch.where(later, value, best)
        where = torch.where(later, index, where)
    shape = [*x.shape[:-3], count, *values.shape[-2:]]
    return best.reshape(shape), where.reshape(shape)


def backward(
    grad: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Any,
) -> Any:
    """grad, indices: [(N,) C, oD, oH, oW]; x: [(N,) C, D, H, W]."""
    return scatter_planes(grad, x, indices, 3)


REWRITES = (
    Rewrite(
        name="max_pool3d_planes",
        op="aten.max_pool3d_with_indices.default",
        formula="y[d, h, w] = max over t of pool2d(x[d s + t dilation - p])[h, w]; its index is "
        "that of the first plane with the maximum, times H*W, plus the index within the plane",
        source="a maximum over a box is a maximum over its planes; order of ties as in eager",
        decompose=forward,
        memory="every depth plane pooled, and per depth tap a value and an index of the result",
    ),
    Rewrite(
        name="max_pool3d_backward_scatter",
        op="aten.max_pool3d_with_indices_backward.default",
        formula="grad_input[p] = sum over the outputs o of a box with indices[o] = p of grad[o]",
        source="definition of the gradient of max, indices as returned by the forward op",
        decompose=backward,
        memory="one zero tensor of the size of the input",
    ),
)
