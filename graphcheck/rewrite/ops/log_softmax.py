"""Log-softmax in float64, which the kernel refuses."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import total

__all__ = ["REWRITES", "log_softmax"]


def log_softmax(x: Any, dim: int, half_to_float: bool) -> Any:
    """Shifted by the largest entry, so that no exponential overflows."""
    import torch

    if x.dtype != torch.float64 or not x.dim():
        return NotImplemented
    shifted = x - torch.ops.aten.amax.default(x, [dim], True)
    return shifted - torch.log(total(torch.exp(shifted), [dim], True))


REWRITES = (
    Rewrite(
        name="log_softmax_float64",
        op="aten._log_softmax.default",
        formula="y = x - max(x) - log(sum(exp(x - max(x))))",
        source="torch.nn.LogSoftmax",
        decompose=log_softmax,
        memory="two intermediates of the input's size",
    ),
)
