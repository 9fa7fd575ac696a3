"""Small pieces that several rewrites are built from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "moments",
    "number",
    "operator",
    "plus",
    "result_dtypes",
    "results_unseen",
    "times",
    "total",
    "wide_dtype",
    "widened",
]


def operator(name: str) -> Callable[..., Any]:
    """The overload of a qualified name (`aten.add.Tensor`); AttributeError if torch lacks it."""
    import torch

    namespace, packet, overload = name.split(".")
    found: Callable[..., Any] = getattr(
        getattr(getattr(torch.ops, namespace), packet), overload or "default"
    )
    return found


def wide_dtype(tensor: Any) -> Any:
    """The dtype torch's CPU kernels accumulate in: float32 for half precision, else its own."""
    import torch

    return torch.float32 if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.dtype


def widened(tensor: Any) -> Any:
    """The tensor in its accumulation dtype; itself where that is its own."""
    return tensor.to(wide_dtype(tensor))


def number(value: float | int | bool, like: Any) -> Any:
    """A 0-d tensor of the dtype of `like`, made in the graph instead of lifted as a constant."""
    import torch

    return torch.full((), value, dtype=like.dtype, device=like.device)


def times(x: Any, factor: float) -> Any:
    """x times a number, as `mul.Scalar`: lowering turns the number of a `mul.Tensor` into a float32
    constant, which float64 then carries along."""
    import torch

    return torch.ops.aten.mul.Scalar(x, factor)


def plus(x: Any, term: float) -> Any:
    """x plus a number, as `add.Scalar`; see `times`."""
    import torch

    return torch.ops.aten.add.Scalar(x, term)


def total(x: Any, dims: Sequence[int], keepdim: bool = False) -> Any:
    """The sum over `dims`.

    The runtime's sum over a single dim adds float64 up in float32; its mean does not.
    """
    import torch

    dims = list(dims)
    if x.dtype == torch.float64 and len(dims) == 1 and isinstance(x.shape[dims[0]], int):
        return times(torch.ops.aten.mean.dim(x, dims, keepdim), x.shape[dims[0]])
    return torch.ops.aten.sum.dim_IntList(x, dims, keepdim)


def moments(x: Any, dims: Sequence[int]) -> tuple[Any, Any, Any]:
    """Mean, deviation from it, and biased variance over `dims`, which are kept with size 1.

    The variance is the mean of squared deviations: no cancellation, unlike E[x^2] - E[x]^2.
    """
    import torch

    mean = torch.ops.aten.mean.dim(x, list(dims), True)
    deviation = x - mean
    variance = torch.ops.aten.mean.dim(deviation * deviation, list(dims), True)
    return mean, deviation, variance


def results_unseen(op: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What an op gives for these arguments, found by calling it unseen by the trace: only dtypes
    and shapes of it may be used."""
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    with disable_proxy_modes_tracing():
        return list(op(*arguments))


def result_dtypes(op: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The dtypes an op gives for these arguments."""
    return [result.dtype for result in results_unseen(op, *arguments)]
