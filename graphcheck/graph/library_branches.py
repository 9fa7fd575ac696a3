"""Branches of torch's own library on values of tensors that change nothing of what is computed.

Tracing knows no values, so it stops at them, though the model would be the same on either side:

- `torch.distributions` checks parameters and samples against their constraints (its default) and
  raises, or goes on;
- `F.gaussian_nll_loss` raises for a variance below zero, or goes on;
- `nn.TransformerEncoder` and `nn.TransformerDecoder` compare a mask with the causal one, to hand
  `is_causal` on as a hint beside the mask, which stays what is applied.

While a model is traced the checks are off and there is no hint, unless the model says otherwise.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

__all__ = ["values_unread"]


@contextlib.contextmanager
def values_unread() -> Iterator[None]:
    """torch's library reads no values here where it can do without."""
    import torch.nn.functional as functional
    import torch.nn.modules.transformer as transformer
    from torch.distributions import Distribution

    checks = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        with (
            _in_place_of(transformer, "_detect_is_causal_mask", _as_told),
            _in_place_of(functional, "gaussian_nll_loss", _gaussian_nll_loss),
        ):
            yield
    finally:
        Distribution.set_default_validate_args(checks)


@contextlib.contextmanager
def _in_place_of(module: Any, name: str, function: Any) -> Iterator[None]:
    original = getattr(module, name, None)
    if original is None:
        yield
        return
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, original)


def _as_told(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    return is_causal is True


def _gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """(log v + (input - target)^2 / v) / 2, v the variance but `eps` at least; see torch.

    The gradient of v is not cut off where `eps` takes its place. Raises ValueError.
    """
    import torch

    variance = var if isinstance(var, torch.Tensor) else torch.full_like(input, var)
    if variance.shape == input.shape[:-1] and variance.shape != input.shape:
        variance = variance.unsqueeze(-1)
    variance = variance.clone()
    with torch.no_grad():
        variance.clamp_(min=eps)
    loss = 0.5 * (variance.log() + (input - target).square() / variance)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    return loss if reduction == "none" else getattr(loss, reduction)()
