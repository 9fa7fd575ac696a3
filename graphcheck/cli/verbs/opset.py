"""`graphcheck opset`: the operator sets of runtimes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from graphcheck.cli.interface import Verb
from graphcheck.cli.output import check_output, emit, look, say
from graphcheck.cli.tables import JsonOption, table
from graphcheck.errors import ExitCode

__all__ = ["VERB"]

_app = typer.Typer(
    help="List, show or generate the operator sets of runtimes.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


@_app.command("list")
def list_opsets(as_json: JsonOption = False) -> int:
    """List the operator sets that come with graphcheck."""
    from graphcheck.opset.load import load
    from graphcheck.opset.registry import shipped

    opsets = {name: load(name) for name in shipped()}
    if as_json:
        rows = [
            {
                "name": name,
                "runtime": opset.runtime,
                "version": opset.version,
                "library": opset.library,
                "kernels": len(opset.kernels),
                "limits": len(opset.limits),
            }
            for name, opset in opsets.items()
        ]
        emit(json.dumps(rows, indent=2) + "\n")
    else:
        cells = [
            (name, str(len(opset.kernels)), str(len(opset.limits)), opset.library)
            for name, opset in opsets.items()
        ]
        emit(table(("name", "kernels", "limits", "library"), cells, look()))
    return ExitCode.OK


@_app.command("show")
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME|FILE]", help="An operator set, `installed` or `live`."),
    ] = "installed",
    op: Annotated[
        str | None, typer.Option("--op", metavar="TEXT", help="Only kernels with this in the name.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Show the kernels of an operator set, and the arguments that they refuse."""
    from graphcheck.opset.load import load

    opset = load(name)
    kernels = sorted(entry for entry in opset.kernels if op is None or op in entry)
    limits = [entry for entry in opset.limits if op is None or op in entry.kernel]
    if as_json:
        body = {
            "runtime": opset.runtime,
            "version": opset.version,
            "library": opset.library,
            "source": opset.source,
            "kernels": kernels,
            "limits": [
                {"id": e.id, "kernel": e.kernel, "rule": e.rule, "reason": e.reason} for e in limits
            ],
        }
        emit(json.dumps(body, indent=2) + "\n")
        return ExitCode.OK
    reasons: dict[str, list[str]] = {}
    for entry in limits:
        reasons.setdefault(entry.kernel, []).append(f"{entry.rule} {entry.id}")
    rows = [(kernel, "; ".join(reasons.get(kernel, ()))) for kernel in kernels]
    shown = look()
    title = f"{opset.runtime} {opset.version}, {opset.library}, from {opset.source}"
    body_text = table(("kernel", "limits"), rows, shown) if rows else ""
    everywhere = [f"any kernel: {text}" for text in reasons.get("*", ())]
    parts = [title, "", body_text.rstrip("\n"), *everywhere, f"{len(kernels)} kernels"]
    emit("\n".join(part for part in parts if part or part is parts[1]) + "\n")
    return ExitCode.OK


@_app.command("generate")
def generate_file(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHEEL|TREE|live",
            show_default=False,
            help="An executorch .whl file, an ExecuTorch source tree, or the installed runtime.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to this file, not to stdout."),
    ] = None,
) -> int:
    """Generate an operator set from a wheel, a source tree or the live registry."""
    from graphcheck.opset.format import dump
    from graphcheck.opset.generate import generate

    check_output(output)
    opset = generate(source)
    emit(dump(opset), output)
    if output is not None:
        say(f"{len(opset.kernels)} kernels of {opset.runtime} {opset.version} written to {output}")
    return ExitCode.OK


def _register(app: typer.Typer) -> None:
    app.add_typer(_app, name="opset")


VERB = Verb(name="opset", order=5, register=_register)
