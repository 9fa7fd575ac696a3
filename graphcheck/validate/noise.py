"""How far float rounding alone can move a result: stochastic arithmetic under eager PyTorch.

Two correct kernels for one op differ by their order of summation. The difference is a random walk
of rounding errors: one rounding of the unit `u` (half the machine epsilon) per term, on partial
sums of the size of the terms. So a sum of K terms is off by about u * (sum of |terms| + sqrt(K) *
|sum|), and any other op by about u * |result|, or by u times the terms that cancel inside it
(`validate.cancelling`). `RoundingNoise` adds exactly that to the result of
every op of a forward and backward pass, `AMPLITUDE` times as strong and with random signs; what
then changes in the loss and in each gradient is the tolerance for another implementation.

Run twice with opposite signs: a value so close to a kink (zero of a ReLU, a tie of a pool) that
rounding may push it over is pushed over by one of the two, so the jump is in the tolerance, too.

The `AMPLITUDE` covers what the model leaves out (a kernel with a longer chain of roundings, such
as a variance computed as E[x2]-E[x]2 on ordinary data, and the extremes of many entries). A wrong
kernel is off by far more: see the tests, which pin both sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from graphcheck.validate.cancelling import terms

__all__ = ["AMPLITUDE", "EXACT", "LINEAR", "lengths", "noise_mode", "op_name", "unit"]

AMPLITUDE = 8.0
"""Noise in units of the expected rounding error."""

LINEAR = frozenset(
    {
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "mv",
        "dot",
        "convolution",
        "convolution_backward",
        "convolution_overrideable",
        "mkldnn_convolution",
        "sum",
        "mean",
        "cumsum",
        "embedding_dense_backward",
        "index_add",
        "scatter_add",
        "avg_pool2d",
        "avg_pool2d_backward",
        "_adaptive_avg_pool2d",
        "_adaptive_avg_pool2d_backward",
        "upsample_bilinear2d",
        "upsample_bilinear2d_backward",
        "index_put",
    }
)
"""Ops that are linear in the absolute values of their inputs: called on those they give the sum of
|terms| itself."""

EXACT = frozenset(
    {
        "clone",
        "copy",
        "_to_copy",
        "cat",
        "stack",
        "gather",
        "index",
        "index_select",
        "embedding",
        "where",
        "zeros",
        "zeros_like",
        "ones_like",
        "full",
        "full_like",
        "empty",
        "empty_like",
        "empty_strided",
        "new_zeros",
        "new_empty",
        "new_empty_strided",
        "new_full",
        "new_ones",
        "fill",
        "zero",
        "arange",
        "relu",
        "threshold_backward",
        "neg",
        "abs",
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "adaptive_max_pool2d",
        "adaptive_max_pool3d",
        "fractional_max_pool2d",
        "fractional_max_pool3d",
        "amax",
        "amin",
        "aminmax",
        "max",
        "min",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "median",
        "nanmedian",
        "kthvalue",
        "mode",
        "topk",
        "sort",
        "cummax",
        "cummin",
        "clamp",
        "clamp_min",
        "clamp_max",
        "hardtanh",
        "round",
        "floor",
        "ceil",
        "trunc",
        "scalar_tensor",
        "lift_fresh",
        "lift_fresh_copy",
        "masked_fill",
        "constant_pad_nd",
        "flip",
        "roll",
        "repeat",
        "sign",
    }
)
"""Ops that only move or pick values: they do not round."""


_FLAGS = ("is_target",)
"""Results, by their names in the schema, that hold 0 and 1 in a floating dtype."""


def unit(dtype: Any) -> float:
    """The unit roundoff of a torch dtype, half its machine epsilon."""
    import torch

    return float(torch.finfo(dtype).eps) / 2


def noise_mode(sign: int, seed: int, amplitude: float = AMPLITUDE) -> Any:
    """A torch dispatch mode that perturbs the floating results of ops (see the module).

    Two modes of equal `seed` and opposite `sign` draw opposite noise. The global random
    generator is left alone.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class RoundingNoise(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.generator = torch.Generator().manual_seed(seed)

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            kwargs = kwargs or {}
            if not _rounds(func):
                return func(*args, **kwargs)
            # In-place ops overwrite what the sum of |terms| needs, so it comes first.
            bounds = _bounds(func, args, kwargs)
            results = func(*args, **kwargs)
            listed = results if isinstance(results, (tuple, list)) else (results,)
            if bounds is None:
                inside = terms(op_name(func), args, listed)
                bounds = None if inside is None else (inside, *([None] * (len(listed) - 1)))
            counts = lengths(func, args, listed)
            for index, result in enumerate(listed):
                if _is_floating(result) and not _is_flag(func, index):
                    self._perturb(result, bounds[index] if bounds else None, counts[index])
            return results

        def _perturb(self, result: Any, bound: Any, length: float) -> None:
            if result.numel() == 0 or result.is_meta:
                return
            size = result.abs().mul_(math.sqrt(length))
            if bound is not None:
                size += bound.to(size.dtype).reshape(size.shape)
            noise = torch.randn(result.shape, generator=self.generator, dtype=torch.float32).to(
                result.dtype
            )
            change = size.mul_(noise).mul_(sign * amplitude * unit(result.dtype))
            # The -inf of an attention mask has no rounding error, and would become NaN.
            result.add_(change.nan_to_num_(0.0, 0.0, 0.0))

    return RoundingNoise()


def op_name(func: Any) -> str:
    """`add` for `aten::add.out` and `aten::add_`."""
    name: str = func._schema.name.partition("::")[2]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _rounds(func: Any) -> bool:
    """Whether the op makes new rounded values: not a view, a copy, a pick or a random draw."""
    import torch

    if func.namespace not in ("aten", "torch_library", "quantized"):
        return bool(func.namespace != "prim")
    if torch.Tag.nondeterministic_seeded in func.tags or func.is_view:
        return False
    return op_name(func) not in EXACT


def _bounds(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Sum of |terms| of each result of a linear op, None for other ops."""
    import torch
    from torch.utils._pytree import tree_map_only

    if op_name(func) not in LINEAR:
        return None

    def absolute(tensor: Any) -> Any:
        return tensor.abs() if tensor.dtype.is_floating_point else tensor

    # abs() makes new tensors, so an in-place op leaves the real ones alone here.
    results = func(
        *tree_map_only(torch.Tensor, absolute, args),
        **tree_map_only(torch.Tensor, absolute, dict(kwargs)),
    )
    return results if isinstance(results, (tuple, list)) else (results,)


def lengths(func: Any, args: Any, results: Any) -> list[float]:
    """How many terms make up an entry of each result, for arguments in the order of the schema."""
    import torch

    name = op_name(func)
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if name == "convolution_backward":
        gradient, _, weight = tensors[:3]
        positions = gradient.numel() / max(1, gradient.shape[1])
        return [weight.numel() / max(1, weight.shape[1]), positions, positions]
    if name in ("mm", "bmm", "mv", "dot"):
        return [float(max(1, tensors[0].shape[-1]))] * len(results)
    if name in ("addmm", "baddbmm"):
        return [float(max(1, tensors[1].shape[-1]))] * len(results)
    if name.startswith(("convolution", "mkldnn_convolution")):
        return [float(max(1, tensors[1][0].numel()))] * len(results)
    if torch.Tag.pointwise in func.tags or not tensors:
        return [1.0] * len(results)
    # A reduction, or an op with sums inside (softmax, norms, losses, attention).
    largest = max(tensor.numel() for tensor in tensors)
    row = max((tensor.shape[-1] for tensor in tensors if tensor.dim()), default=1)
    return [
        float(max(1, row, largest / max(1, result.numel()) if _is_tensor(result) else 1))
        for result in results
    ]


def _is_floating(value: Any) -> bool:
    return _is_tensor(value) and bool(value.dtype.is_floating_point)


def _is_flag(func: Any, index: int) -> bool:
    returns = func._schema.returns
    return index < len(returns) and returns[index].name in _FLAGS


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
