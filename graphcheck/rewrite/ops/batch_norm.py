"""Batch normalization in training: batch statistics, and the running ones that follow them."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import (
    moments,
    operator,
    plus,
    result_dtypes,
    times,
    total,
    widened,
)

__all__ = ["REWRITES", "backward", "functional", "no_stats"]

_FUNCTIONAL = "aten._native_batch_norm_legit_functional.default"
_NO_STATS = "aten._native_batch_norm_legit.no_stats"
_BACKWARD = "aten.native_batch_norm_backward.default"


def _dims(x: Any) -> list[int]:
    return [0, *range(2, x.dim())]


def _per_channel(tensor: Any, x: Any) -> Any:
    return tensor.reshape([1, -1] + [1] * (x.dim() - 2))


def _normalized(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any, Any]:
    """Result in x's dtype; mean, 1/std and biased variance, each of shape [C]."""
    import torch

    mean, deviation, variance = moments(widened(x), _dims(x))
    inverse = torch.rsqrt(plus(variance, eps))
    # Scaling by one factor per channel saves a pass of broadcasting over the input.
    scale = inverse if weight is None else inverse * _per_channel(widened(weight), x)
    result = deviation * scale
    if bias is not None:
        result = result + _per_channel(widened(bias), x)
    channels = x.shape[1]
    return (
        result.to(x.dtype),
        mean.reshape(channels),
        inverse.reshape(channels),
        variance.reshape(channels),
    )


def _unbiased(x: Any, variance: Any) -> Any:
    """Variance with divisor n - 1, n values per channel; NaN for n = 1, as eager."""
    import torch

    count: Any = 1
    for dim in _dims(x):
        count = count * x.shape[dim]
    if isinstance(count, int):
        return times(variance, count / (count - 1) if count > 1 else float("nan"))
    # With a symbolic batch the factor would have to be computed on symbols.
    return torch.ops.aten.var.correction(widened(x), _dims(x), correction=1)


def functional(
    x: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """(result, mean, 1/std, new running mean, new running variance)."""
    if not training:
        return NotImplemented
    arguments = (x, weight, bias, running_mean, running_var, training, momentum, eps)
    dtypes = result_dtypes(operator(_FUNCTIONAL), *arguments)
    result, mean, inverse, variance = _normalized(x, weight, bias, eps)
    new_mean = times(widened(running_mean), 1 - momentum) + times(mean, momentum)
    unbiased = _unbiased(x, variance)
    new_var = times(widened(running_var), 1 - momentum) + times(unbiased, momentum)
    results = (result, mean, inverse, new_mean, new_var)
    return tuple(value.to(dtype) for value, dtype in zip(results, dtypes, strict=True))


def no_stats(x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    """(result, mean, 1/std)."""
    if not training:
        return NotImplemented
    dtypes = result_dtypes(operator(_NO_STATS), x, weight, bias, training, momentum, eps)
    results = _normalized(x, weight, bias, eps)[:3]
    return tuple(value.to(dtype) for value, dtype in zip(results, dtypes, strict=True))


def backward(
    grad: Any,
    x: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    output_mask: list[bool],
) -> Any:
    """(gradient of x, of weight, of bias), None where `output_mask` is false."""
    import torch

    dims = _dims(x)
    g, wide = widened(grad), widened(x)
    if train:
        mean, inverse = save_mean, save_invstd
    else:
        mean, inverse = running_mean, torch.rsqrt(plus(widened(running_var), eps))
    inverse = _per_channel(widened(inverse), x)
    normal = (wide - _per_channel(widened(mean), x)) * inverse
    by_weight = total(g * normal, dims, True)
    by_bias = total(g, dims, True)
    scale = inverse if weight is None else inverse * _per_channel(widened(weight), x)
    if train:
        projection = torch.ops.aten.mean.dim(g * normal, dims, True)
        flow = g - torch.ops.aten.mean.dim(g, dims, True) - normal * projection
    else:
        flow = g
    like = x if weight is None else weight
    return (
        (flow * scale).to(x.dtype) if output_mask[0] else None,
        by_weight.reshape(x.shape[1]).to(like.dtype) if output_mask[1] else None,
        by_bias.reshape(x.shape[1]).to(like.dtype) if output_mask[2] else None,
    )


_SOURCE = "Ioffe and Szegedy, 2015, section 3; torch.nn.BatchNorm2d for the running statistics"

REWRITES = (
    Rewrite(
        name="batch_norm_training",
        op=_FUNCTIONAL,
        formula="m = mean(x), v = mean((x - m)^2); y = (x - m) / sqrt(v + eps) * w + b; "
        "running_mean = (1 - a) running_mean + a m; "
        "running_var = (1 - a) running_var + a v n / (n - 1)",
        source=_SOURCE,
        decompose=functional,
        memory="two intermediates of the input's size",
    ),
    Rewrite(
        name="batch_norm_without_statistics",
        op=_NO_STATS,
        formula="m = mean(x), v = mean((x - m)^2); y = (x - m) / sqrt(v + eps) * w + b",
        source=_SOURCE,
        decompose=no_stats,
        memory="two intermediates of the input's size",
        remark="the kernel computes the variance as E[x^2] - E[x]^2 in float32; "
        "this form does not cancel",
    ),
    Rewrite(
        name="batch_norm_backward",
        op=_BACKWARD,
        formula="z = (x - m) / s; gw = sum(g z); gb = sum(g); "
        "gx = w / s (g - mean(g) - z mean(g z)), in evaluation gx = w g / s",
        source="Ioffe and Szegedy, 2015, section 3, the chain rule collected",
        decompose=backward,
        memory="three intermediates of the input's size",
    ),
)
