"""The optimizers that the runner computes, and their counterparts in torch.optim."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from graphcheck.errors import UsageError
from graphcheck.options import ValidateOptions
from graphcheck.runtime.types import OptimizerSettings

__all__ = ["OPTIMIZERS", "make_optimizer", "named_settings", "settings_of", "told_optimizer"]

OPTIMIZERS = ("sgd", "adam", "adamw")
_USUAL = {
    "momentum": "--momentum 0.9",
    "weight decay": "--weight-decay 0.01",
    "betas": "--betas 0.9,0.999",
    "eps": "--eps 1e-8",
}


def settings_of(options: ValidateOptions) -> OptimizerSettings:
    """The optimizer's settings; raises UsageError for one that cannot be, or is of another."""
    name = options.optimizer
    if name not in OPTIMIZERS:
        raise UsageError(
            f"optimizer {name!r} cannot be compared with eager training",
            f"choose one of {', '.join(OPTIMIZERS)}",
        )
    standard = ValidateOptions("")
    own = {"momentum": "sgd", "betas": "adam and adamw", "eps": "adam and adamw"}
    for setting, whose in own.items():
        changed = getattr(options, setting) != getattr(standard, setting)
        if changed and name not in whose.split():
            raise UsageError(f"optimizer {name} has no {setting}", f"{setting} belongs to {whose}")
    decay = options.weight_decay
    if decay is None:
        decay = 0.01 if name == "adamw" else 0.0
    ranges = {
        "momentum": (options.momentum, 0 <= options.momentum < 1, "from 0 to below 1"),
        "weight decay": (decay, 0 <= decay < math.inf, "0 or more"),
        "betas": (options.betas, all(0 <= b < 1 for b in options.betas), "from 0 to below 1"),
        "eps": (options.eps, 0 <= options.eps < math.inf, "0 or more"),
    }
    for setting, (value, fits, wanted) in ranges.items():
        if not fits:
            raise UsageError(
                f"{setting} must be {wanted}, not {value}", f"for instance {_USUAL[setting]}"
            )
    return OptimizerSettings(options.momentum, decay, options.betas, options.eps)


def told_optimizer(name: str, learning_rate: float, settings: OptimizerSettings) -> str:
    """`adamw, learning rate 0.001, weight decay 0.01`"""
    parts = [name, f"learning rate {learning_rate:g}"]
    if name == "sgd" and settings.momentum:
        parts.append(f"momentum {settings.momentum:g}")
    if settings.weight_decay:
        parts.append(f"weight decay {settings.weight_decay:g}")
    if name != "sgd" and settings != OptimizerSettings(weight_decay=settings.weight_decay):
        parts.append(f"betas {settings.betas[0]:g} and {settings.betas[1]:g}")
        parts.append(f"eps {settings.eps:g}")
    return ", ".join(parts)


def named_settings(name: str, settings: OptimizerSettings) -> dict[str, Any]:
    """The settings that this optimizer has, by the names that torch.optim gives them."""
    own: dict[str, Any] = {"weight_decay": settings.weight_decay}
    if name == "sgd":
        return own | {"momentum": settings.momentum}
    return own | {"betas": settings.betas, "eps": settings.eps}


def make_optimizer(
    name: str, parameters: Iterable[Any], learning_rate: float, settings: OptimizerSettings
) -> Any:
    """The optimizer of torch.optim, computed parameter by parameter as its formulas say."""
    import torch

    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    own = named_settings(name, settings)
    return kinds[name](parameters, lr=learning_rate, foreach=False, **own)
