"""Windows of poolings: sums over them, the adjoint, counts, adaptive bounds.

Sums are taken one dim after the other from shifted slices, which the runtime copies quickly; a
product with a 0/1 matrix costs it several times as much (measured on avg_pool2d_backward).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphcheck.rewrite.parts import contiguous, per_dim, positions, separable, zeros

__all__ = [
    "adaptive_bounds",
    "adaptive_gradient",
    "adaptive_mean",
    "is_tiling",
    "mean_gradient",
    "pool_sizes",
    "pooled",
    "pooled_sizes",
    "spread",
    "stretched",
    "unpooled",
    "with_border",
]


def pool_sizes(
    kernel: Any, stride: Any, padding: Any, dims: int
) -> tuple[list[Any], list[Any], list[Any]]:
    """Kernel, stride and padding per dim; an empty stride is the kernel."""
    sizes = per_dim(kernel, dims)
    return sizes, per_dim(stride, dims, sizes), per_dim(padding, dims, 0)


def pooled_sizes(
    inputs: Sequence[Any],
    kernel: Sequence[Any],
    stride: Sequence[Any],
    padding: Sequence[Any],
    ceil_mode: bool,
    dilation: Sequence[Any] | None = None,
) -> list[Any]:
    """Output sizes of a pooling; with `ceil_mode` a last window must start inside the input or
    its left padding."""
    sizes = []
    dilation = dilation or [1] * len(kernel)
    for n, k, s, p, d in zip(inputs, kernel, stride, padding, dilation, strict=True):
        free = n + 2 * p - d * (k - 1) - 1
        if not ceil_mode:
            sizes.append(free // s + 1)
            continue
        count = (free + s - 1) // s + 1
        sizes.append(count - 1 if (count - 1) * s >= n + p else count)
    return sizes


def is_tiling(kernel: Any, stride: Any, padding: Any, inputs: Any, outputs: Any) -> bool:
    """Whether the windows cover the input exactly, side by side."""
    return all(
        k == s and p == 0 and o * k == n
        for k, s, p, n, o in zip(kernel, stride, padding, inputs, outputs, strict=True)
    )


def spread(x: Any, factors: Sequence[Any]) -> Any:
    """Repeat each element of the last dims `factors[d]` times in place: the adjoint of summing
    over windows that tile."""
    dims = len(factors)
    lead = list(x.shape[: x.dim() - dims])
    sizes = list(x.shape[x.dim() - dims :])
    apart = [part for size in sizes for part in (size, 1)]
    wide = [part for size, f in zip(sizes, factors, strict=True) for part in (size, f)]
    joined = [size * f for size, f in zip(sizes, factors, strict=True)]
    return x.reshape([*lead, *apart]).expand([*lead, *wide]).reshape([*lead, *joined])


def with_border(x: Any, dim: int, before: Any, after: Any, value: float = 0.0) -> Any:
    """Pad one dim; negative amounts cut."""
    import torch

    aten = torch.ops.aten
    size = x.shape[dim]
    if before < 0 or after < 0:
        x = aten.slice.Tensor(x, dim, max(0, -before), size + min(0, after))
    if before > 0 or after > 0:
        pads = [0] * (2 * (x.dim() - dim))
        pads[-2:] = [max(0, before), max(0, after)]
        x = aten.constant_pad_nd.default(x, pads, value)
    return x


def stretched(x: Any, dim: int, step: Any) -> Any:
    """x with step - 1 zeros between its elements along one dim."""
    import torch

    if step == 1:
        return x
    aten = torch.ops.aten
    sizes = list(x.shape)
    count = sizes[dim]
    gaps = zeros([*sizes[: dim + 1], step - 1, *sizes[dim + 1 :]], x.dtype)
    joined = aten.cat.default([x.unsqueeze(dim + 1), gaps], dim + 1)
    joined = joined.reshape([*sizes[:dim], count * step, *sizes[dim + 1 :]])
    return aten.slice.Tensor(joined, dim, 0, (count - 1) * step + 1)


def pooled(x: Any, outputs: Any, kernel: Any, stride: Any, padding: Any) -> Any:
    """Sums over the windows of the last dims."""
    import torch

    dims = len(outputs)
    for index, (o, k, s, p) in enumerate(zip(outputs, kernel, stride, padding, strict=True)):
        dim = x.dim() - dims + index
        if (k, s, p) == (1, 1, 0):
            continue
        reach = (o - 1) * s + k
        x = with_border(x, dim, p, reach - p - x.shape[dim])
        total = None
        for t in range(k):
            part = torch.ops.aten.slice.Tensor(x, dim, t, t + (o - 1) * s + 1, s)
            total = part if total is None else total + part
        x = total
    return contiguous(x)


def unpooled(grad: Any, inputs: Any, kernel: Any, stride: Any, padding: Any) -> Any:
    """The adjoint of `pooled`: each gradient added to every place of its window."""
    import torch

    dims = len(inputs)
    # Last dims first: they are the ones whose copies are small steps.
    for index in reversed(range(dims)):
        n, k, s, p = inputs[index], kernel[index], stride[index], padding[index]
        dim = grad.dim() - dims + index
        if (k, s, p) == (1, 1, 0):
            continue
        z = stretched(grad, dim, s)
        # Place i gets z[i + p - t] for every t < k.
        z = with_border(z, dim, k - 1 - p, n + p - z.shape[dim])
        total = None
        for t in range(k):
            part = torch.ops.aten.slice.Tensor(z, dim, t, t + n)
            total = part if total is None else total + part
        grad = total
    return contiguous(grad)


def mean_gradient(
    summed: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    count_include_pad: bool,
    divisor: Any,
) -> Any:
    """`summed` [..., outputs], each element over the number of elements its window counts.

    A window ends at the padded border; padding counts with `count_include_pad` only; `divisor`
    replaces all counts.
    """
    import torch

    if divisor is not None:
        return summed / divisor
    dims = len(kernel)
    outputs = summed.shape[summed.dim() - dims :]
    inputs = x.shape[x.dim() - dims :]
    plain = all(
        (count_include_pad or p == 0) and (o - 1) * s + k <= n + 2 * p
        for o, n, k, s, p in zip(outputs, inputs, kernel, stride, padding, strict=True)
    )
    if plain:
        total = 1
        for k in kernel:
            total = total * k
        return summed / total
    counts = None
    for index, (o, n, k, s, p) in enumerate(
        zip(outputs, inputs, kernel, stride, padding, strict=True)
    ):
        shape = [1] * dims
        shape[index] = o
        start = positions(o, summed.dtype, shape) * s - p
        end = torch.clamp(start + k, max=n + p)
        if not count_include_pad:
            start = torch.clamp(start, min=0)
            end = torch.clamp(end, max=n)
        counts = end - start if counts is None else counts * (end - start)
    return summed / counts


def adaptive_bounds(inputs: Any, outputs: Any, dtype: Any) -> tuple[Any, Any]:
    """First and one past the last input of each output of an adaptive pooling.

    floor(i n / o) and ceil((i + 1) n / o); halves are added so that the rounding of the quotient
    cannot matter.
    """
    import torch

    index = positions(outputs, torch.float64)
    start = torch.floor((index * inputs + 0.5) / outputs)
    end = torch.floor((index * inputs + (inputs + outputs - 0.5)) / outputs)
    return start.to(dtype), end.to(dtype)


def _adaptive_matrix(inputs: Any, outputs: Any, dtype: Any) -> Any:
    """[inputs, outputs]: the weight of each input in each output."""
    start, end = adaptive_bounds(inputs, outputs, dtype)
    place = positions(inputs, dtype, [inputs, 1])
    return ((place >= start) & (place < end)).to(dtype) / (end - start)


def adaptive_mean(x: Any, outputs: Sequence[Any]) -> Any:
    """Adaptive average pooling of the last dims."""
    inputs = x.shape[x.dim() - len(outputs) :]
    if all(n % o == 0 for n, o in zip(inputs, outputs, strict=True)):
        parts = [part for n, o in zip(inputs, outputs, strict=True) for part in (o, n // o)]
        first = x.dim() - len(outputs)
        apart = x.reshape([*x.shape[:first], *parts])
        return apart.mean([first + 2 * index + 1 for index in range(len(outputs))])
    return separable(
        x, [_adaptive_matrix(n, o, x.dtype) for n, o in zip(inputs, outputs, strict=True)]
    )


def adaptive_gradient(grad: Any, x: Any, dims: int) -> Any:
    """Backward of adaptive average pooling of the last dims."""
    inputs = list(x.shape[x.dim() - dims :])
    outputs = list(grad.shape[grad.dim() - dims :])
    if all(n % o == 0 for n, o in zip(inputs, outputs, strict=True)):
        sizes = [n // o for n, o in zip(inputs, outputs, strict=True)]
        total = 1
        for size in sizes:
            total = total * size
        return spread(grad / total, sizes)
    return separable(
        grad,
        [_adaptive_matrix(n, o, grad.dtype).t() for n, o in zip(inputs, outputs, strict=True)],
    )
