"""`graphcheck patch`: kernels that are right, as a library or as edits of a source tree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphcheck.cli.interface import Verb
from graphcheck.cli.output import emit, look
from graphcheck.cli.patch_source import add_source_commands
from graphcheck.cli.tables import table
from graphcheck.errors import ExitCode

__all__ = ["VERB"]

_app = typer.Typer(
    help="Build a library of right kernels, or edit an ExecuTorch source tree.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


@_app.command("build")
def build(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="The folder to write the library to."),
    ],
    op: Annotated[
        list[str] | None,
        typer.Option("--op", metavar="NAME", help="Only this kernel (repeatable)."),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="host|aarch64-linux|DIR",
            help="The installed runtime, arm64 Linux, or an ExecuTorch install or source tree.",
        ),
    ] = "host",
    fast: Annotated[
        bool,
        typer.Option("--fast", help="Replace convolutions that are right, too, by faster ones."),
    ] = False,
) -> int:
    """Build the drop-in kernel library; --kernel-library of the other verbs takes it.

    A kernel stays out of a runtime whose own is right, as found when the library is loaded.
    """
    from graphcheck.patch.library.build import build_library

    built = build_library(output, ops=tuple(op or ()), target=target, fast=fast)
    rows = [
        (name, "as the missing operator's kernel" if count == 1 else f"for {count} signatures")
        for name, count in built.registered.items()
    ]
    rows += [(name, what) for name, what in built.left_out.items()]
    text = table(("kernel", "registers"), rows, look()) if rows else ""
    emit(f"{text}{built.library}\n{built.manifest}\n")
    return ExitCode.OK


def _register(app: typer.Typer) -> None:
    add_source_commands(_app)
    app.add_typer(_app, name="patch")


VERB = Verb(name="patch", order=6, register=_register)
