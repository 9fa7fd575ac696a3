"""Gradients of the model as it is, against those it has without something that export loses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphcheck.workload.seeding import seeded
from graphcheck.workload.types import Workload

__all__ = ["LOSS", "WrongGradients", "gradients_of", "wrong_gradients", "wrong_loss_or_gradients"]

LOSS = "loss"
"""What is wrong where no gradient is."""

_TOLERANCE = 1e-4
"""Relative to the largest entry of a gradient; float32 noise stays far below."""


@dataclass(frozen=True)
class WrongGradients:
    """The parameters whose gradients differ, and the worst of them.

    `error` is relative to the largest entry of `worst`'s gradient; 1 where the gradient is gone.
    """

    parameters: tuple[str, ...]
    worst: str
    error: float


def gradients_of(workload: Workload, module: Any, *, draws: int = 0) -> tuple[Any, dict[str, Any]]:
    """The loss of `module` on the example inputs, detached, and its gradients by name.

    The gradient is None where the loss depends on no such parameter. Torch's generator starts the
    same at every call, those of Python and NumPy from `draws`; all are put back.
    """
    import torch
    from torch.utils import _pytree

    trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
    for parameter in trained.values():
        parameter.grad = None
    args, kwargs = workload.copied_inputs()
    with seeded(draws), torch.enable_grad():
        torch.manual_seed(0)
        loss = _pytree.tree_leaves(module(*args, **kwargs))[0]
        if loss.requires_grad:
            # Not autograd.grad, which hooks after accumulation do not see.
            loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in trained.items()}


def wrong_gradients(
    right: Mapping[str, Any], without: Mapping[str, Any], prefix: str
) -> WrongGradients | None:
    """The gradients of `without` that are not those of `right`; None when all agree.

    Names are given without `prefix`; gradients that are None in `right` do not count.
    """
    errors = {
        name.removeprefix(prefix): _error(gradient, without[name])
        for name, gradient in right.items()
        if gradient is not None
    }
    bad = {name: error for name, error in errors.items() if not error <= _TOLERANCE}
    if not bad:
        return None
    worst = max(bad, key=lambda name: bad[name])
    return WrongGradients(tuple(bad), worst, bad[worst])


def wrong_loss_or_gradients(
    right: tuple[Any, Mapping[str, Any]], without: tuple[Any, Mapping[str, Any]], prefix: str
) -> WrongGradients | None:
    """As `wrong_gradients`, of what `gradients_of` gives; `LOSS` where it alone is wrong."""
    wrong = wrong_gradients(right[1], without[1], prefix)
    return wrong or wrong_gradients({LOSS: right[0]}, {LOSS: without[0]}, "")


def _error(right: Any, wrong: Any) -> float:
    scale = float(right.abs().max())
    if wrong is None:
        return 1.0 if scale else 0.0
    difference = float((right - wrong).abs().max())
    # A gradient that is zero has no scale of its own.
    scale = scale or float(wrong.abs().max())
    return difference / scale if scale else difference
