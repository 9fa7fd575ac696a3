"""Arithmetic of float64 tensors with plain numbers.

Lowering makes a float32 constant of the number in `mul(x, 0.1)`; as `mul.Scalar` it stays what it
is. Numbers that float32 holds exactly are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphcheck.opset.conditions import float32_exact
from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import operator, plus, times

__all__ = ["REWRITES"]


def _needs_it(tensor: Any, number: Any) -> bool:
    import torch

    if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.float64:
        return False
    return float32_exact(number) is False


def _by_scalar(op: str) -> Callable[..., Any]:
    def decompose(x: Any, other: Any, **keywords: Any) -> Any:
        if not _needs_it(x, other):
            return NotImplemented
        if keywords.get("alpha", 1) != 1:
            other = other * keywords["alpha"]
        return operator(op)(x, other)

    return decompose


def _subtract(x: Any, other: Any, *, alpha: float = 1) -> Any:
    """Takes a number first, too: 0.1 - x."""
    import torch

    if _needs_it(x, other):
        return torch.ops.aten.sub.Scalar(x, other * alpha)
    if _needs_it(other, x):
        return plus(times(other, -alpha), x)
    return NotImplemented


REWRITES = tuple(
    Rewrite(
        name=f"{name}_number_float64",
        op=f"aten.{name}.Tensor",
        formula=f"{name} of a float64 tensor and a number, the number kept in float64",
        source="definition",
        decompose=decompose,
        widens=True,
    )
    for name, decompose in (
        ("add", _by_scalar("aten.add.Scalar")),
        ("sub", _subtract),
        ("mul", _by_scalar("aten.mul.Scalar")),
        ("div", _by_scalar("aten.div.Scalar")),
    )
)
