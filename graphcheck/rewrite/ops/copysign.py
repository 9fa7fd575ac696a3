"""The size of one number with the sign of another."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import operator, result_dtypes

__all__ = ["REWRITES"]


def of_tensor(x: Any, sign: Any) -> Any:
    """The sign of -0 counts; that of a NaN is taken as positive."""
    import torch

    dtype = result_dtypes(operator("aten.copysign.Tensor"), x, sign)[0]
    size = torch.abs(x).to(dtype)
    negative = sign < 0
    if sign.dtype.is_floating_point:
        # 1 / -0 is -inf.
        negative = negative | ((sign == 0) & (torch.reciprocal(sign) < 0))
    return torch.where(negative, -size, size)


def of_number(x: Any, sign: Any) -> Any:
    """Likewise for a plain number."""
    import math

    import torch

    dtype = result_dtypes(operator("aten.copysign.Scalar"), x, sign)[0]
    size = torch.abs(x).to(dtype)
    return -size if math.copysign(1.0, sign) < 0 else size


REWRITES = tuple(
    Rewrite(
        name=name,
        op=op,
        formula="|x| where the sign bit of y is clear, else -|x|",
        source="IEEE 754-2019, 5.5.1",
        decompose=decompose,
        memory="three masks of the size of the result",
        remark="the sign of a NaN is not seen",
    )
    for name, op, decompose in (
        ("copysign_where", "aten.copysign.Tensor", of_tensor),
        ("copysign_number", "aten.copysign.Scalar", of_number),
    )
)
