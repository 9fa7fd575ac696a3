"""Cumulative maximum and minimum with indices, by a doubling scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.scans import scan

__all__ = ["REWRITES"]


def _decompose(largest: bool) -> Callable[[Any, int], Any]:
    def decompose(x: Any, dim: int) -> Any:
        """Values and indices; of equal values the last counts, and NaN stays once it is met."""
        import torch

        if x.dim() == 0:
            return x.clone(), torch.zeros_like(x, dtype=torch.int64)
        dim = dim % x.dim()
        shape = [1] * x.dim()
        shape[dim] = x.shape[dim]
        index = torch.arange(x.shape[dim], dtype=torch.int64).reshape(shape).expand(x.shape)
        if x.shape[dim] == 1:
            return x.clone(), index.clone()

        def combine(earlier: Any, later: Any) -> Any:
            wins = later[0] >= earlier[0] if largest else later[0] <= earlier[0]
            if x.dtype.is_floating_point:
                wins = wins | torch.isnan(later[0])
            return [
                torch.where(wins, later[0], earlier[0]),
                torch.where(wins, later[1], earlier[1]),
            ]

        return tuple(scan([x, index], dim, [_limit(x.dtype, largest), 0], combine))

    return decompose


def _limit(dtype: Any, largest: bool) -> Any:
    import torch

    if dtype.is_floating_point:
        return float("-inf") if largest else float("inf")
    return torch.iinfo(dtype).min if largest else torch.iinfo(dtype).max


REWRITES = tuple(
    Rewrite(
        name=f"{name}_scan",
        op=f"aten.{name}.default",
        formula="for s = 1, 2, 4, ...: (value, index)[i] = the better of those at i - s and i, the "
        "later one of equals",
        source="Hillis and Steele, Data parallel algorithms (1986); ties as in eager",
        decompose=_decompose(name == "cummax"),
        memory="four values and three indices per element and doubling, log2(n) doublings",
    )
    for name in ("cummax", "cummin")
)
