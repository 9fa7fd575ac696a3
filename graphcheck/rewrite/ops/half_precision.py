"""Half precision added up in float32, as eager does, where the kernels add up in half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import operator

__all__ = ["REWRITES"]


def _in_float32(op: str) -> Callable[..., Any]:
    """The op on float32 copies of its half-precision arguments, the results rounded once.

    It is for calls whose first tensor is in half precision; integers and masks stay as they are.
    """

    def decompose(*arguments: Any, **keywords: Any) -> Any:
        import torch

        half = (torch.float16, torch.bfloat16)
        floats = [a for a in arguments if isinstance(a, torch.Tensor) and a.is_floating_point()]
        if not floats or floats[0].dtype not in half or keywords.get("dtype") is not None:
            return NotImplemented

        def wide(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.dtype in half:
                return value.to(torch.float32)
            return value

        result = operator(op)(*map(wide, arguments), **{k: wide(v) for k, v in keywords.items()})
        if isinstance(result, (list, tuple)):
            return tuple(None if one is None else one.to(floats[0].dtype) for one in result)
        return result.to(floats[0].dtype)

    return decompose


_OPS = (
    "aten.addmm.default",
    "aten.avg_pool2d.default",
    "aten.convolution.default",
    "aten.convolution_backward.default",
    "aten.cumsum.default",
    "aten.index_put.default",
    "aten.scatter_add.default",
    "aten.var.correction",
)

REWRITES = tuple(
    Rewrite(
        name=f"{op.split('.')[1]}_in_float32",
        op=op,
        formula="round(op(float32(arguments)))",
        source="torch's CPU kernels accumulate half precision in float32",
        decompose=_in_float32(op),
        memory="float32 copies of arguments and results",
    )
    for op in _OPS
)
