"""The options of `validate` that look at single instructions, and `--reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphcheck.cli.options import checked_seconds
from graphcheck.errors import UsageError
from graphcheck.options import MOST_NUMBER

__all__ = [
    "ModuleOption",
    "OpOption",
    "ReproduceOption",
    "ReproducersOption",
    "ShadowOption",
    "StepOption",
    "TiesOption",
    "reproduced",
    "shadow_settings",
]

_PANEL = "Single instructions"

ShadowOption = Annotated[
    bool,
    typer.Option(
        "--shadow",
        rich_help_panel=_PANEL,
        help="Run every instruction again in eager PyTorch, on the inputs it had in the runtime.",
    ),
]
OpOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shadow-op",
        metavar="GLOB",
        rich_help_panel=_PANEL,
        help="Only these operators (aten::mm.out, mm, max_pool*).",
    ),
]
ModuleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shadow-module",
        metavar="GLOB",
        rich_help_panel=_PANEL,
        help="Only instructions of these modules (layer1.*).",
    ),
]
StepOption = Annotated[
    list[int] | None,
    typer.Option(
        "--shadow-step",
        min=0,
        max=MOST_NUMBER,
        rich_help_panel=_PANEL,
        help="Training step to look at, from 0 (default: the first and the last).",
    ),
]
ReproducersOption = Annotated[
    Path | None,
    typer.Option(
        "--reproducers",
        metavar="DIR",
        rich_help_panel=_PANEL,
        help="Write each wrong instruction into DIR as a program of its own.",
    ),
]
ReproduceOption = Annotated[
    Path | None,
    typer.Option(
        "--reproduce",
        metavar="DIR",
        rich_help_panel=_PANEL,
        help="Run such a program again, in place of a TARGET: wrong (exit code 1) or right.",
    ),
]
TiesOption = Annotated[
    bool,
    typer.Option(
        "--ties",
        rich_help_panel=_PANEL,
        help="Measure the ties of pools, and what another rule for them does to the gradients.",
    ),
]


def shadow_settings(
    *,
    shadow: bool,
    ops: list[str] | None = None,
    modules: list[str] | None = None,
    steps: list[int] | None = None,
    reproducers: Path | None,
    ties: bool = False,
) -> dict[str, Any]:
    """The fields of ValidateOptions that these options set; each of them asks for `--shadow`."""
    if reproducers is not None and reproducers.exists() and not reproducers.is_dir():
        raise UsageError(
            f"--reproducers {reproducers} is a file, not a folder.",
            "Name a folder; it is made if it is not there.",
        )
    return {
        "shadow": shadow or bool(ops or modules or steps) or reproducers is not None,
        "shadow_ops": tuple(ops or ()),
        "shadow_modules": tuple(modules or ()),
        "shadow_steps": tuple(steps or ()),
        "reproducers": str(reproducers.absolute()) if reproducers is not None else "",
        "ties": ties,
    }


def reproduced(folder: Path, libraries: list[Path] | None, timeout: float | None) -> Any:
    """The verdict on a reproducer, run on this machine."""
    from graphcheck.runtime.devices.host import train
    from graphcheck.validate.reproducer import reproduce

    seconds = checked_seconds(60.0 if timeout is None else timeout)
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "there is no such folder"
        raise UsageError(
            f"--reproduce {folder}: {what}.",
            "Name a folder that `graphcheck validate --shadow --reproducers DIR` wrote.",
        )
    for library in libraries or ():
        if not library.is_file():
            raise UsageError(
                f"--kernel-library {library}: there is no such file.",
                "Check the path; graphcheck patch build -o DIR makes such a library.",
            )
    paths = [path.absolute() for path in libraries] if libraries else None
    return reproduce(folder, train, paths, seconds)
