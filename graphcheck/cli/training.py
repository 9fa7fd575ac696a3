"""Options of the verbs that train: steps, the optimizer, data, and where."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graphcheck.cli.options import chosen
from graphcheck.config import Config
from graphcheck.errors import UsageError

__all__ = [
    "BetasOption",
    "DataOption",
    "DecayOption",
    "EpsOption",
    "MomentumOption",
    "OnOption",
    "OptimizerOption",
    "RateOption",
    "RequireOption",
    "ResumeOption",
    "StepsOption",
    "training_options",
]

StepsOption = Annotated[
    int | None, typer.Option("--steps", min=1, help="Training steps (default: 20).")
]
RateOption = Annotated[
    float | None, typer.Option("--learning-rate", "--lr", help="Learning rate (default: 0.05).")
]
OptimizerOption = Annotated[
    str | None,
    typer.Option("--optimizer", metavar="NAME", help="sgd, adam or adamw (default: sgd)."),
]
MomentumOption = Annotated[
    float | None, typer.Option("--momentum", metavar="M", help="Momentum of sgd (default: 0).")
]
DecayOption = Annotated[
    float | None,
    typer.Option("--weight-decay", metavar="W", help="Weight decay (default: 0; adamw: 0.01)."),
]
BetasOption = Annotated[
    str | None,
    typer.Option("--betas", metavar="B1,B2", help="Of adam and adamw (default: 0.9,0.999)."),
]
EpsOption = Annotated[
    float | None, typer.Option("--eps", metavar="E", help="Of adam and adamw (default: 1e-8).")
]
OnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        metavar="DEVICES",
        help="Where the runtime runs: host, qemu-aarch64, ssh:..., adb:...; commas between them.",
    ),
]
RequireOption = Annotated[
    bool, typer.Option("--require", help="A device that cannot be had is a failure (exit code 4).")
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Take results that devices finished in an earlier run.")
]
DataOption = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FILE.npz|MODULE:LOADER",
        help="Batches to train on in turn, in place of the example inputs.",
    ),
]


def training_options(
    settings: Config,
    *,
    steps: int | None,
    learning_rate: float | None,
    optimizer: str | None,
    momentum: float | None,
    weight_decay: float | None,
    betas: str | None,
    eps: float | None,
    on: list[str] | None,
    data: str | None = None,
) -> dict[str, Any]:
    """The fields of `ValidateOptions` that these options give. Raises UsageError."""
    given = {
        "momentum": momentum,
        "weight_decay": weight_decay,
        "betas": _betas(betas) if betas is not None else None,
        "eps": eps,
        "data": data,
    }
    return {
        "steps": chosen(steps, settings.steps, 20),
        "learning_rate": chosen(learning_rate, settings.learning_rate, 0.05),
        "optimizer": chosen(optimizer, settings.optimizer, "sgd"),
        "on": _devices(on),
        **{name: value for name, value in given.items() if value is not None},
    }


def _betas(text: str) -> tuple[float, float]:
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"--betas {text}: these are not two numbers.", "For instance --betas 0.9,0.999."
        ) from None
    return first, second


def _devices(on: list[str] | None) -> tuple[str, ...]:
    """Names of devices, each once; looked up here, so that a wrong one costs nothing."""
    from graphcheck.runtime.devices.interface import device

    names = [name.strip() for text in on or ["host"] for name in text.split(",")]
    return tuple(dict.fromkeys(device(name).name for name in names))
