"""What several rewrites are built from: sizes, constants, separable products, scatters.

Everything here is called while a rewrite is traced, on fake tensors; it uses only ops that the
runtime has, and builds its constants with `full` and `arange`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "chebyshev_series",
    "contiguous",
    "leading",
    "per_dim",
    "positions",
    "scaled",
    "scatter_planes",
    "separable",
    "shifted",
    "zeros",
]


def per_dim(value: Any, count: int, default: Any = None) -> list[Any]:
    """A size per dim: one number stands for all dims, an empty list for the default."""
    if isinstance(value, int):
        value = [value]
    items = list(value)
    if not items:
        items = per_dim(default, count)
    return items * count if len(items) == 1 else items


def leading(x: Any, dims: int) -> Any:
    """The product of all sizes but the last `dims` (1 if there are none)."""
    product = 1
    for size in x.shape[: x.dim() - dims]:
        product = product * size
    return product


def zeros(shape: Sequence[Any], dtype: Any) -> Any:
    """A tensor of zeros, as `full`."""
    import torch

    return torch.ops.aten.full.default(list(shape), 0, dtype=dtype)


def positions(count: Any, dtype: Any, shape: Sequence[Any] | None = None) -> Any:
    """0, 1, ... count - 1 as a tensor of the given dtype and shape (default `[count]`)."""
    import torch

    row = torch.arange(count, dtype=dtype)
    return row if shape is None else row.reshape(list(shape))


def contiguous(x: Any) -> Any:
    """A row-major copy of x; x itself if it is row-major."""
    import torch

    if x.is_contiguous():
        return x
    return torch.ops.aten.clone.default(x, memory_format=torch.contiguous_format)


def separable(x: Any, matrices: Sequence[Any]) -> Any:
    """Multiply the last dims of x by one matrix each: y[..., j, l] = sum_ik x[..., i, k] A_ij B_kl.

    `matrices[d]` has shape [size of that dim in x, size of that dim in the result]; None leaves a
    dim as it is. The result is row-major.
    """
    import torch

    dims = len(matrices)
    for index, matrix in enumerate(matrices):
        if matrix is None:
            continue
        dim = x.dim() - dims + index
        moved = x.transpose(dim, -1)
        sizes = list(moved.shape)
        flat = moved.reshape(leading(moved, 1), sizes[-1])
        product = torch.ops.aten.mm.default(flat, matrix)
        x = product.reshape([*sizes[:-1], matrix.shape[1]]).transpose(dim, -1)
    return contiguous(x)


def scatter_planes(grad: Any, x: Any, indices: Any, dims: int) -> Any:
    """Add each gradient to the place its index names, counted within the last `dims` dims of x."""
    import torch

    planes = leading(x, dims)
    size = 1
    for length in x.shape[x.dim() - dims :]:
        size = size * length
    summed = torch.ops.aten.scatter_add.default(
        zeros([planes, size], grad.dtype),
        1,
        indices.reshape(planes, -1),
        grad.reshape(planes, -1),
    )
    return summed.reshape(x.shape)


def scaled(x: Any, factor: float) -> Any:
    """x times a number, in the dtype of x: lowering makes float32 of a number that stands for a
    tensor (`x * 0.1` is mul.Tensor), which costs float64 half its digits."""
    import torch

    return torch.ops.aten.mul.Scalar(x, factor)


def shifted(x: Any, term: float) -> Any:
    """x plus a number, in the dtype of x (see `scaled`)."""
    import torch

    return torch.ops.aten.add.Scalar(x, term)


def chebyshev_series(twice: Any, coefficients: Sequence[float]) -> Any:
    """c_0 / 2 + c_1 T_1(t) + c_2 T_2(t) + ... by Clenshaw's recurrence; `twice` is 2 t."""
    import torch

    later = last = torch.zeros_like(twice)
    for coefficient in reversed(coefficients[1:]):
        last, later = shifted(twice * last - later, coefficient), last
    return shifted(scaled(twice, 0.5) * last - later, coefficients[0] / 2)
