"""Fractional max pooling in 2 dims and its backward; the random samples are an input of the op."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.parts import leading, per_dim, scatter_planes

__all__ = ["REWRITES"]


def _starts(samples: Any, inputs: Any, outputs: Any, kernel: Any) -> Any:
    """First places of the windows: [planes, outputs], int64."""
    import torch

    planes = samples.shape[0]
    last = torch.ops.aten.full.default([planes, 1], inputs - kernel, dtype=torch.int64)
    if outputs == 1:
        return last
    dtype = samples.dtype
    # The step is rounded to the dtype of the samples, as in the op's own arithmetic.
    step = torch.ops.aten.full.default([1, 1], inputs - kernel, dtype=dtype) / (outputs - 1)
    sample = samples.reshape(planes, 1)
    index = torch.arange(outputs - 1, dtype=dtype).reshape(1, outputs - 1)
    # Casting to an integer cuts the fraction off; all values are positive.
    starts = ((index + sample) * step).to(torch.int64) - (sample * step).to(torch.int64)
    return torch.cat([starts, last], 1)


def forward(x: Any, kernel: Any, output_size: Any, samples: Any) -> Any:
    """x: [(N,) C, H, W]; samples: [N, C, 2], for width then height."""
    import torch

    aten = torch.ops.aten
    kh, kw = per_dim(kernel, 2)
    oh, ow = per_dim(output_size, 2)
    height, width = x.shape[-2:]
    planes = leading(x, 2)
    samples = samples.reshape(planes, 2)
    across = _starts(aten.select.int(samples, 1, 0), width, ow, kw)
    down = _starts(aten.select.int(samples, 1, 1), height, oh, kh)
    rows = down.reshape(planes, oh, 1, 1, 1) + torch.arange(kh).reshape(1, 1, 1, kh, 1)
    columns = across.reshape(planes, 1, ow, 1, 1) + torch.arange(kw).reshape(1, 1, 1, 1, kw)
    places = (rows * width + columns).reshape(planes, oh * ow * kh * kw)
    taken = aten.gather.default(x.reshape(planes, height * width), 1, places)
    values, local = aten.max.dim(taken.reshape(planes, oh * ow, kh * kw), -1)
    table = places.reshape(planes, oh * ow, kh * kw)
    where = aten.gather.default(table, -1, local.unsqueeze(-1))
    shape = [*x.shape[:-2], oh, ow]
    return values.reshape(shape), where.reshape(shape)


def backward(grad: Any, x: Any, kernel: Any, output_size: Any, indices: Any) -> Any:
    """grad, indices: [(N,) C, oH, oW]; x: [(N,) C, H, W]."""
    return scatter_planes(grad, x, indices, 2)


REWRITES = (
    Rewrite(
        name="fractional_max_pool2d_gather",
        op="aten.fractional_max_pool2d.default",
        formula="windows start at int((i + u) a) - int(u a), a = (n - k) / (out - 1), the last one "
        "at n - k; the maximum of what is gathered there",
        source="Graham, Fractional Max-Pooling (2014), pseudo-random sequences",
        decompose=forward,
        memory="all windows side by side, and an index for each of their elements",
    ),
    Rewrite(
        name="fractional_max_pool2d_backward_scatter",
        op="aten.fractional_max_pool2d_backward.default",
        formula="grad_input[p] = sum over the outputs o with indices[o] = p of grad[o]",
        source="definition of the gradient of max, indices as returned by the forward op",
        decompose=backward,
        memory="one zero tensor of the size of the input",
    ),
)
