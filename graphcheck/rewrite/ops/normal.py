"""Normal noise with mean and deviation, each a number or a tensor; and its exponential."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import plus, times, wide_dtype

__all__ = ["REWRITES", "log_normal", "normal", "normal_functional", "normal_of_size"]


def _standard(shape: Any, dtype: Any, device: Any) -> Any:
    import torch

    return torch.ops.aten.randn.default(shape, dtype=dtype, device=device)


def normal_functional(x: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Normal with mean and standard deviation, in shape and dtype of x."""
    return plus(times(_standard(x.shape, wide_dtype(x), x.device), std), mean).to(x.dtype)


def log_normal(x: Any, mean: float = 1.0, std: float = 2.0, generator: Any = None) -> Any:
    """The exponential of normal noise, in shape and dtype of x."""
    drawn = _standard(x.shape, wide_dtype(x), x.device)
    return plus(times(drawn, std), mean).exp().to(x.dtype)


def normal(mean: Any, std: Any = 1.0, generator: Any = None) -> Any:
    """Normal around each entry of `mean` with each of `std`; one of them may be a number."""
    import torch

    one = mean if isinstance(mean, torch.Tensor) else std
    both = isinstance(mean, torch.Tensor) and isinstance(std, torch.Tensor)
    shape = torch.broadcast_shapes(mean.shape, std.shape) if both else one.shape
    drawn = _standard(shape, wide_dtype(one), one.device)
    drawn = drawn * std if isinstance(std, torch.Tensor) else times(drawn, std)
    drawn = drawn + mean if isinstance(mean, torch.Tensor) else plus(drawn, mean)
    return drawn.to(one.dtype)


def normal_of_size(
    mean: float, std: float, size: Any, *, dtype: Any = None, device: Any = None, **options: Any
) -> Any:
    """Normal noise of a shape."""
    import torch

    dtype = torch.get_default_dtype() if dtype is None else dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    return plus(times(_standard(size, wide, device), std), mean).to(dtype)


_FORMULA = "mean + std z, z standard normal"

REWRITES = (
    Rewrite(
        name="normal",
        op="aten.normal_functional.default",
        formula=_FORMULA,
        source="torch.Tensor.normal_",
        decompose=normal_functional,
    ),
    *(
        Rewrite(
            name=f"normal_{overload.lower()}",
            op=f"aten.normal.{overload}",
            formula=_FORMULA,
            source="torch.normal",
            decompose=normal,
        )
        for overload in ("Tensor_float", "float_Tensor", "Tensor_Tensor")
    ),
    Rewrite(
        name="normal_of_size",
        op="aten.normal.float_float",
        formula=_FORMULA,
        source="torch.normal",
        decompose=normal_of_size,
    ),
    Rewrite(
        name="log_normal",
        op="aten.log_normal.default",
        formula="exp(mean + std z), z standard normal",
        source="torch.Tensor.log_normal_",
        decompose=log_normal,
    ),
)
