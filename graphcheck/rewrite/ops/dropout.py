"""Dropout whose survivors are scaled."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import times, widened

__all__ = ["REWRITES", "native_dropout"]


def native_dropout(x: Any, p: float, train: bool | None) -> Any:
    """(result, mask of what survives)."""
    import torch

    if (train is not None and not train) or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    draw = torch.ops.aten.rand.default(x.shape, dtype=torch.float32, device=x.device)
    mask = draw < 1 - p
    wide = widened(x)
    return times(wide * mask.to(wide.dtype), 1 / (1 - p)).to(x.dtype), mask


REWRITES = (
    Rewrite(
        name="dropout_scaled",
        op="aten.native_dropout.default",
        formula="mask = u < 1 - p with u uniform in [0, 1); y = x mask / (1 - p)",
        source="torch.nn.Dropout",
        decompose=native_dropout,
        memory="the draw in float32, of the input's size",
        remark="the kernel does not scale the survivors",
    ),
)
