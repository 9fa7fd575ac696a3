"""Length of a vector of two, without overflow of the squares."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def by_ratio(x: Any, y: Any) -> Any:
    """Infinite if one is, even beside a NaN."""
    import torch

    a, b = torch.abs(x), torch.abs(y)
    large, small = torch.maximum(a, b), torch.minimum(a, b)
    whole = torch.where(large == 0, torch.ones_like(large), large)
    ratio = small / whole
    value = large * torch.sqrt(torch.ops.aten.add.Scalar(ratio * ratio, 1.0))
    endless = torch.isinf(x) | torch.isinf(y)
    return torch.where(endless, torch.full_like(value, float("inf")), value)


REWRITES = (
    Rewrite(
        name="hypot_ratio",
        op="aten.hypot.default",
        formula="m sqrt(1 + (n / m)^2), m the larger and n the smaller of |x| and |y|",
        source="IEEE 754-2019, 9.2",
        decompose=by_ratio,
        memory="about ten short-lived tensors of the size of the result",
    ),
)
