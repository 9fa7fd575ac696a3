"""A product with a bias as a product and a sum, whose kernel is several times faster."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import times

__all__ = ["REWRITES", "addmm_as_mm"]


def addmm_as_mm(bias: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta bias + alpha a b, of [n, k] and [k, m]; floats that are no half precision only."""
    import torch

    if a.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    product = torch.ops.aten.mm.default(a, b)
    if alpha != 1:
        product = times(product, alpha)
    if beta == 0:
        return product
    return product + (bias if beta == 1 else times(bias, beta))


REWRITES = (
    Rewrite(
        name="addmm_as_mm",
        op="aten.addmm.default",
        formula="y = alpha (a b) + beta bias",
        source="torch.addmm",
        decompose=addmm_as_mm,
        memory="the product before the bias is added, of the size of the result",
        remark="made only when asked for, since addmm is right: mm.out of 1.5.1 is an optimized "
        "kernel, addmm.out a portable one",
        only_asked=True,
    ),
)
