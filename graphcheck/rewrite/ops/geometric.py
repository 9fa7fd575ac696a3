"""Geometric noise: the number of trials until the first success."""

from __future__ import annotations

import math
from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import plus, times

__all__ = ["REWRITES", "geometric"]


def geometric(x: Any, p: float, generator: Any = None) -> Any:
    """Trials (1, 2, ...) until the first success of probability `p`, in shape and dtype of x."""
    import torch

    draw = torch.ops.aten.rand.default(x.shape, dtype=torch.float32, device=x.device)
    # rand is below 1 by 2**-24 at least, so the logarithm is finite.
    failures = torch.floor(times(torch.log1p(-draw), 1 / math.log1p(-p)))
    return plus(failures, 1.0).to(x.dtype)


REWRITES = (
    Rewrite(
        name="geometric",
        op="aten.geometric.default",
        formula="1 + floor(log(1 - u) / log(1 - p)), u uniform in [0, 1)",
        source="inverse of the distribution function",
        decompose=geometric,
    ),
)
