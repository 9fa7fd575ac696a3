"""Running forward for its value alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["without_gradients"]

_T = TypeVar("_T")
_NEEDED = "does not require grad"


def without_gradients(call: Callable[[], _T]) -> _T:
    """What `call` gives without gradients; with them where it differentiates of its own.

    A gradient penalty calls `torch.autograd.grad` in forward, which needs them. Then `call` has
    run twice.
    """
    import torch

    try:
        with torch.no_grad():
            return call()
    except RuntimeError as error:
        if _NEEDED not in str(error):
            raise
    with torch.enable_grad():
        return call()
