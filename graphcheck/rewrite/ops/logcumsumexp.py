"""log of the cumulative sum of exponentials, by a doubling scan."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.scans import scan

__all__ = ["REWRITES"]


def doubling(x: Any, dim: int) -> Any:
    """log(sum of exp(x[j]), j <= i) along `dim`, without overflow."""
    import torch

    if x.dim() == 0 or x.shape[dim] == 1:
        return x.clone()

    def combine(earlier: Any, later: Any) -> Any:
        a, b = earlier[0], later[0]
        most = torch.maximum(a, b)
        # Equal infinities have no difference.
        apart = torch.where(a == b, torch.zeros_like(a), torch.abs(a - b))
        return [most + torch.log1p(torch.exp(-apart))]

    return scan([x], dim % x.dim(), [float("-inf")], combine)[0]


REWRITES = (
    Rewrite(
        name="logcumsumexp_scan",
        op="aten.logcumsumexp.default",
        formula="for s = 1, 2, 4, ...: y[i] = max(a, b) + log1p(exp(-|a - b|)), a = y[i - s], "
        "b = y[i], -inf before the start",
        source="Hillis and Steele, Data parallel algorithms (1986)",
        decompose=doubling,
        memory="ten tensors of the size of the input per doubling, log2(n) doublings",
    ),
)
