"""Padding with a constant where some amounts are negative: the kernel refuses them."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.parts import contiguous

__all__ = ["REWRITES"]


def cut_then_pad(x: Any, pad: Any, value: Any = 0) -> Any:
    """`pad` is (before, after) per dim, the last dim first."""
    import torch

    aten = torch.ops.aten
    amounts = list(pad)
    if not all(isinstance(amount, int) for amount in amounts) or min(amounts, default=0) >= 0:
        return NotImplemented
    for index in range(len(amounts) // 2):
        before, after = amounts[2 * index : 2 * index + 2]
        if before < 0 or after < 0:
            dim = x.dim() - 1 - index
            x = aten.slice.Tensor(x, dim, max(0, -before), x.shape[dim] + min(0, after))
    rest = [max(0, amount) for amount in amounts]
    if any(rest):
        return aten.constant_pad_nd.default(x, rest, value)
    return contiguous(x)


REWRITES = (
    Rewrite(
        name="constant_pad_nd_slice",
        op="aten.constant_pad_nd.default",
        formula="a negative amount cuts: slice first, then pad by what is positive",
        source="documentation of torch.nn.functional.pad",
        decompose=cut_then_pad,
    ),
)
