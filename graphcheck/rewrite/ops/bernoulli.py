"""Draws of zeros and ones: Dropout2d, alpha dropout, stochastic depth, torch.bernoulli."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES", "bernoulli", "bernoulli_p"]


def bernoulli_p(x: Any, p: float = 0.5, generator: Any = None) -> Any:
    """Ones with probability p, in shape and dtype of x."""
    import torch

    draw = torch.ops.aten.rand.default(x.shape, dtype=torch.float32, device=x.device)
    return (draw < p).to(x.dtype)


def bernoulli(x: Any, generator: Any = None) -> Any:
    """Ones with the probabilities x."""
    import torch

    draw = torch.ops.aten.rand.default(x.shape, dtype=torch.float32, device=x.device)
    return (draw < x).to(x.dtype)


REWRITES = (
    Rewrite(
        name="bernoulli_p",
        op="aten.bernoulli.p",
        formula="1 where u < p, u uniform in [0, 1)",
        source="torch.Tensor.bernoulli_",
        decompose=bernoulli_p,
    ),
    Rewrite(
        name="bernoulli_tensor",
        op="aten.bernoulli.default",
        formula="1 where u < x, u uniform in [0, 1)",
        source="torch.bernoulli",
        decompose=bernoulli,
    ),
)
