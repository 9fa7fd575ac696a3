"""Maximum and minimum that pass over NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def _decompose(name: str) -> Callable[[Any, Any], Any]:
    def decompose(x: Any, y: Any) -> Any:
        """NaN only where both are."""
        import torch

        best = getattr(torch, name)(x, y)
        if not best.dtype.is_floating_point:
            return best
        one, other = x.to(best.dtype), y.to(best.dtype)
        return torch.where(torch.isnan(one), other, torch.where(torch.isnan(other), one, best))

    return decompose


REWRITES = tuple(
    Rewrite(
        name=f"{name}_where",
        op=f"aten.{name}.default",
        formula=f"{form}(x, y), y where x is NaN, x where y is",
        source="IEEE 754-2019, 9.6",
        decompose=_decompose(form),
        memory="two masks and a tensor of the size of the result",
    )
    for name, form in (("fmax", "maximum"), ("fmin", "minimum"))
)
