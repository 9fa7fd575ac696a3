"""`graphcheck opset`: the operator sets of runtimes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphcheck.cli.interface import Verb
from graphcheck.cli.output import check_output, emit, look, say
from graphcheck.cli.tables import FormatChoice, JsonOption, table, wants_json
from graphcheck.counted import counted
from graphcheck.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from graphcheck.opset.types import Opset

__all__ = ["VERB"]

_app = typer.Typer(
    help="List, show, compare or generate the operator sets of runtimes.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


@_app.command("list")
def list_opsets(as_json: JsonOption = False, output_format: FormatChoice = None) -> int:
    """List the operator sets that come with graphcheck, with the kernels of each library."""
    from graphcheck.opset.difference import lists_of
    from graphcheck.opset.load import load
    from graphcheck.opset.registry import shipped

    opsets = {name: load(name) for name in shipped()}
    rows = [
        {
            "name": name,
            "runtime": opset.runtime,
            "version": opset.version,
            "library": opset.library,
            "kernels": len(opset.kernels),
            **{library: len(kernels) for library, kernels in lists_of(opset).items()},
            "limits": len({limit.id for limit in opset.limits}),
            "advisories": _wrong(opset.version),
            "commit": opset.commit,
        }
        for name, opset in opsets.items()
    ]
    if wants_json(as_json, output_format):
        emit(json.dumps(rows, indent=2) + "\n")
        return ExitCode.OK
    keys = ("kernels", "portable", "optimized", "quantized", "limits", "advisories", "library")
    cells = [tuple(str(row[key]) for key in ("name", *keys)) for row in rows]
    emit(table(("name", *keys), cells, look()))
    return ExitCode.OK


def _wrong(version: str) -> int:
    """How many advisories list the version as affected."""
    from graphcheck.advisory.load import all_advisories
    from graphcheck.advisory.ranges import in_range

    return sum(in_range(advisory, version) is True for advisory in all_advisories())


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
    from graphcheck.cli.opset_text import kernel_history
    from graphcheck.opset.load import load

    opset = load(name)
    history = kernel_history(opset)
    kernels = sorted(entry for entry in opset.kernels if op is None or op in entry)
    limits = [entry for entry in opset.limits if op is None or op in entry.kernel]
    if as_json:
        body = {
            "runtime": opset.runtime,
            "version": opset.version,
            "library": opset.library,
            "source": opset.source,
            "kernels": kernels,
            "history": {kernel: history[kernel] for kernel in kernels},
            "limits": [
                {"id": e.id, "kernel": e.kernel, "rule": e.rule, "reason": e.reason} for e in limits
            ],
        }
        emit(json.dumps(body, indent=2) + "\n")
        return ExitCode.OK
    reasons: dict[str, list[str]] = {}
    for entry in limits:
        reasons.setdefault(entry.kernel, []).append(f"{entry.rule} {entry.id}")
    rows = [
        (
            kernel,
            history[kernel]["since"],
            history[kernel]["implementation"],
            ", ".join(history[kernel]["wrong"]) or history[kernel]["right_since"],
            "; ".join(reasons.get(kernel, ())),
        )
        for kernel in kernels
    ]
    shown = look()
    title = f"{opset.runtime} {opset.version}, {opset.library}, from {opset.source}"
    body_text = (
        table(("kernel", "since", "library", "known faults", "limits"), rows, shown) if rows else ""
    )
    everywhere = [f"any kernel: {text}" for text in reasons.get("*", ())]
    parts = [title, "", body_text.rstrip("\n"), *everywhere, counted(len(kernels), "kernel")]
    emit("\n".join(part for part in parts if part or part is parts[1]) + "\n")
    return ExitCode.OK


@_app.command("diff")
def diff(
    before: Annotated[str, typer.Argument(metavar="ONE", help="A target such as 1.3.1.")],
    after: Annotated[str, typer.Argument(metavar="OTHER", help="The target to compare it with.")],
    as_json: JsonOption = False,
    output_format: FormatChoice = None,
) -> int:
    """Show what changes from one operator set to another: kernels, limits, advisories."""
    from graphcheck.cli.opset_text import diff_json, diff_text
    from graphcheck.opset.difference import compare
    from graphcheck.opset.load import load

    found = compare(load(before), load(after))
    if wants_json(as_json, output_format):
        emit(json.dumps(diff_json(found), indent=2) + "\n")
    else:
        emit(diff_text(found, look()))
    return ExitCode.OK


@_app.command("generate")
def generate_file(
    wheel: Annotated[
        Path | None, typer.Option("--wheel", metavar="FILE", help="An executorch .whl file.")
    ] = None,
    tree: Annotated[
        Path | None, typer.Option("--source", metavar="DIR", help="An ExecuTorch source tree.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="The registry of the installed runtime.")
    ] = False,
    installed: Annotated[
        bool, typer.Option("--installed", help="The files of the installed executorch.")
    ] = False,
    source: Annotated[str | None, typer.Option("--from", hidden=True)] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare with the shipped operator set; exit 1 if it differs"),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to this file, not to stdout."),
    ] = None,
) -> int:
    """Generate an operator set from a wheel, a source tree or the live registry."""
    from graphcheck.opset.format import dump
    from graphcheck.opset.generate import generate

    given = [text for text in (wheel, tree, source) if text is not None]
    given += ["live"] * live + ["installed"] * installed
    if len(given) != 1:
        raise UsageError(
            f"An operator set is made from one source, {len(given)} were given.",
            "Give one of --wheel FILE, --source DIR, --installed and --live.",
        )
    check_output(output)
    opset = generate(given[0])
    if check:
        return _compare_with_shipped(opset)
    emit(dump(opset), output)
    if output is not None:
        say(f"{len(opset.kernels)} kernels of {opset.runtime} {opset.version} written to {output}")
    return ExitCode.OK


def _compare_with_shipped(made: Opset) -> int:
    from graphcheck.cli.opset_text import diff_text
    from graphcheck.opset.difference import compare
    from graphcheck.opset.load import load

    found = compare(load(f"executorch=={made.version}"), made)
    if not made.optimized:
        # The registry does not tell which library a kernel is of.
        found = compare(replace(found.before, **_NO_LISTS), replace(made, **_NO_LISTS))
    commits = {opset.commit for opset in (found.before, made) if opset.commit}
    if found.same and len(commits) < 2:
        emit(
            f"opsets/executorch-{made.version}.yaml is what {made.source} has: "
            f"{len(made.kernels)} kernels.\n"
        )
        return ExitCode.OK
    emit(f"opsets/executorch-{made.version}.yaml is not what {made.source} has.\n")
    if len(commits) == 2:
        emit(f"It is built from {made.commit}, the shipped one from {found.before.commit}.\n")
    emit(diff_text(found, look(), advisories=False))
    return ExitCode.FINDINGS


_NO_LISTS: dict[str, Any] = dict.fromkeys(("optimized", "optimized_only", "quantized"), frozenset())


def _register(app: typer.Typer) -> None:
    app.add_typer(_app, name="opset")


VERB = Verb(name="opset", order=5, register=_register)
