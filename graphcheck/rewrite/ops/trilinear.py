"""The three-operand product behind torch.nn.Bilinear and its gradients."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import widened

__all__ = ["REWRITES", "trilinear"]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def trilinear(
    i1: Any,
    i2: Any,
    i3: Any,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Any:
    """Sum over `sumdim` of the product of the three, each with new dims put in at `expand`."""
    import torch

    rank = i1.dim() + len(expand1)
    letters = [
        "".join(_LETTERS[dim] for dim in range(rank) if dim not in expand)
        for expand in (expand1, expand2, expand3)
    ]
    result = "".join(_LETTERS[dim] for dim in range(rank) if dim not in sumdim)
    equation = f"{','.join(letters)}->{result}"
    operands = [widened(i1), widened(i2), widened(i3)]
    return torch.ops.aten.einsum.default(equation, operands).to(i1.dtype)


REWRITES = (
    Rewrite(
        name="trilinear",
        op="aten._trilinear.default",
        formula="y = sum over sumdim of i1 i2 i3, as two batched matrix products",
        source="torch.nn.Bilinear",
        decompose=trilinear,
        memory="the product of the first two operands",
    ),
)
