"""Layer and group normalization with a variance that does not cancel.

The runtime's kernels compute it as E[x^2] - E[x]^2 in float32, which is wrong for data whose mean
is large against its spread, and noisy for very small groups. For ordinary data the kernels are
right, and faster: this is for what GC402 finds, for a loss in float64, and on request.
"""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import moments, operator, plus, result_dtypes, widened

__all__ = ["REWRITES", "group_norm", "layer_norm"]

_GROUP = "aten.native_group_norm.default"
_LAYER = "aten.native_layer_norm.default"


def group_norm(
    x: Any,
    weight: Any,
    bias: Any,
    batch: int,
    channels: int,
    positions: int,
    groups: int,
    eps: float,
) -> Any:
    """(result, mean [N, G], 1/std [N, G])."""
    import torch

    dtypes = result_dtypes(
        operator(_GROUP), x, weight, bias, batch, channels, positions, groups, eps
    )
    grouped = widened(x).reshape(batch, groups, (channels // groups) * positions)
    mean, deviation, variance = moments(grouped, [2])
    inverse = torch.rsqrt(plus(variance, eps))
    result = (deviation * inverse).reshape(x.shape)
    shape = [1, channels] + [1] * (x.dim() - 2)
    if weight is not None:
        result = result * widened(weight).reshape(shape)
    if bias is not None:
        result = result + widened(bias).reshape(shape)
    results = (result, mean.reshape(batch, groups), inverse.reshape(batch, groups))
    return tuple(value.to(dtype) for value, dtype in zip(results, dtypes, strict=True))


def layer_norm(x: Any, normalized_shape: list[int], weight: Any, bias: Any, eps: float) -> Any:
    """(result, mean, 1/std), the statistics with size 1 in the normalized dims."""
    import torch

    dtypes = result_dtypes(operator(_LAYER), x, normalized_shape, weight, bias, eps)
    dims = list(range(x.dim() - len(normalized_shape), x.dim()))
    mean, deviation, variance = moments(widened(x), dims)
    inverse = torch.rsqrt(plus(variance, eps))
    result = deviation * inverse
    if weight is not None:
        result = result * widened(weight)
    if bias is not None:
        result = result + widened(bias)
    results = (result, mean, inverse)
    return tuple(value.to(dtype) for value, dtype in zip(results, dtypes, strict=True))


REWRITES = (
    Rewrite(
        name="group_norm_stable",
        op=_GROUP,
        formula="m = mean(x), v = mean((x - m)^2) over a group; y = (x - m) / sqrt(v + eps) w + b",
        source="Wu and He, 2018, equations 1 to 3",
        decompose=group_norm,
        widens=True,
        memory="two intermediates of the input's size",
    ),
    Rewrite(
        name="layer_norm_stable",
        op=_LAYER,
        formula="m = mean(x), v = mean((x - m)^2) over the normalized dims; "
        "y = (x - m) / sqrt(v + eps) w + b",
        source="Ba et al., 2016, equation 3",
        decompose=layer_norm,
        widens=True,
        memory="two intermediates of the input's size",
    ),
)
