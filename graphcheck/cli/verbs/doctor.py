"""`graphcheck doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import json

import msgspec
import typer

from graphcheck.cli import options as opt
from graphcheck.cli.interface import Verb
from graphcheck.cli.output import emit, emit_line, look
from graphcheck.cli.progress import Progress
from graphcheck.cli.tables import JsonOption
from graphcheck.errors import ExitCode
from graphcheck.report.ansi import Paint, wrap
from graphcheck.report.interface import Look
from graphcheck.report.words import counted, some_of

__all__ = ["VERB", "doctor"]

_COLORS = {"found": "green", "MISSING": "red", "note": "cyan", "NOT CHECKED": "yellow"}


def doctor(as_json: JsonOption = False, verbose: opt.VerboseOption = 0) -> int:
    """Look at the installation: versions, runtime, compiler, cache; and what is missing.

    Exit code 0: everything that check and validate need is there; 4: something is missing.
    """
    from graphcheck.cli.diagnosis import MISSING, diagnose

    shown = look()
    items = []
    with Progress(verbose) as progress:
        for item in diagnose(progress):
            items.append(item)
    missing = [item.name for item in items if item.state == MISSING]
    if as_json:
        body = {"items": msgspec.to_builtins(items), "missing": missing}
        emit(json.dumps(body, indent=2) + "\n")
        return ExitCode.DEVICE if missing else ExitCode.OK
    names = max(len(item.name) for item in items)
    for item in items:
        emit_line(_line(item.state, f"{item.name:<{names}}", item.detail, shown))
        if item.hint:
            emit_line(wrap(item.hint, shown.width, " " * (names + 15) + "next: "))
    emit_line()
    if missing:
        emit_line(f"{counted(len(missing), 'thing')} missing: {some_of(missing, 9)}.")
        return ExitCode.DEVICE
    emit_line("Everything that check and validate need is there. Next: graphcheck model.py")
    return ExitCode.OK


def _line(state: str, name: str, detail: str, shown: Look) -> str:
    left = f"{state:<11}  {name}"
    width = shown.width
    first, *rest = wrap(detail, width and width - len(left) - 2, hang="").splitlines()
    lines = "\n".join((f"{left}  {first}", *(f"{' ' * len(left)}  {more}" for more in rest)))
    paint = Paint(color=shown.color)
    return lines.replace(state, paint(state, _COLORS[state], "bold"), 1)


def _register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


VERB = Verb(name="doctor", order=6, register=_register)
