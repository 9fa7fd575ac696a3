"""Options of the verbs that train: steps, the optimizer, data, and where."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from graphcheck.cli.options import chosen
from graphcheck.config import Config
from graphcheck.errors import UsageError
from graphcheck.options import MOST_NUMBER
from graphcheck.runtime.devices.interface import DeviceSettings, device, devices, families

__all__ = [
    "BetasOption",
    "CoresOption",
    "DataOption",
    "DecayOption",
    "EpsOption",
    "MomentumOption",
    "OnOption",
    "OptimizerOption",
    "RateOption",
    "RequireOption",
    "ResumeOption",
    "RunnerOption",
    "StepsOption",
    "training_options",
]

_RATES = {"adam": 0.001, "adamw": 0.001}
"""Learning rates where 0.05 would be out of all measure."""

StepsOption = Annotated[
    int | None,
    typer.Option("--steps", min=1, max=MOST_NUMBER, help="Training steps (default: 20)."),
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--learning-rate", "--lr", help="Learning rate (default: 0.05; adam, adamw: 0.001)."
    ),
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
RunnerOption = Annotated[
    Path | None,
    typer.Option("--runner", metavar="FILE", help="Native runner built for an adb or ssh device."),
]
CoresOption = Annotated[
    str | None,
    typer.Option("--cores", metavar="LIST", help="Cores to run on there (adb, ssh): 4-7."),
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
    runner: Path | None,
    cores: str | None,
    data: str | None = None,
) -> dict[str, Any]:
    """The fields of `ValidateOptions` that these options give. Raises UsageError."""
    pair = _betas(betas) if betas is not None else None
    given = {
        "momentum": momentum,
        "weight_decay": weight_decay,
        "betas": pair,
        "eps": eps,
        "data": data,
        "runner": str(runner.absolute()) if runner is not None else None,
        "cores": cores,
    }
    _check_finite("--momentum", momentum)
    _check_finite("--weight-decay", weight_decay)
    _check_finite("--betas", *(pair or ()))
    _check_finite("--eps", eps)
    name = chosen(optimizer, settings.optimizer, "sgd")
    rate = chosen(learning_rate, settings.learning_rate, _RATES.get(name, 0.05))
    if not 0 <= rate < math.inf:
        raise UsageError(
            f"--learning-rate {rate:g}: it is a finite number of 0 or more.",
            "For instance --learning-rate 0.01.",
        )
    return {
        "steps": chosen(steps, settings.steps, 20),
        "learning_rate": rate,
        "optimizer": name,
        "on": _devices(on, DeviceSettings(runner, cores or "")),
        **{name: value for name, value in given.items() if value is not None},
    }


def _check_finite(option: str, *values: float | None) -> None:
    """Others would not reach the child process: JSON has none. Raises UsageError."""
    numbers = [value for value in values if value is not None]
    if not all(map(math.isfinite, numbers)):
        told = ",".join(f"{number:g}" for number in numbers)
        raise UsageError(
            f"{option} {told}: it is a finite number.", "Leave it out to use the default."
        )


def _betas(text: str) -> tuple[float, float]:
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"--betas {text}: these are not two numbers.", "For instance --betas 0.9,0.999."
        ) from None
    return first, second


def _devices(on: list[str] | None, settings: DeviceSettings) -> tuple[str, ...]:
    """Names of devices, each once; looked up here, so that a wrong one costs nothing."""
    asked = [name.strip() for text in on or ["host"] for name in text.split(",")]
    runner = settings.runner
    if runner is not None and not runner.is_file():
        raise UsageError(
            f"--runner {runner}: there is no such file.", "graphcheck device build makes one."
        )
    names = tuple(dict.fromkeys(device(name, settings).name for name in asked))
    # Devices without an address take no settings.
    if all(name in devices() for name in names):
        for option, value in (("--runner", runner), ("--cores", settings.cores)):
            if value:
                taking = " or ".join(f"--on {f.prefix}:{f.form}" for f in families().values())
                raise UsageError(
                    f"{option} {value}: {' and '.join(names)} would not use it.",
                    f"Leave it out, or name the device that it is for: {taking}.",
                )
    return names
