"""`graphcheck advisory`: kernels that are known to be wrong."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from graphcheck.cli.interface import Verb
from graphcheck.cli.output import emit, look
from graphcheck.cli.progress import Progress
from graphcheck.cli.tables import JsonOption, table
from graphcheck.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from graphcheck.advisory.types import Advisory, ProbeResult

__all__ = ["VERB"]

_app = typer.Typer(help="List or show known-wrong kernels.", rich_markup_mode=None)


@_app.command("list")
def list_advisories(as_json: JsonOption = False) -> int:
    """List the known-wrong kernels, and what their probes saw on this machine.

    Runs nothing: probes run when `graphcheck check` needs them, and are remembered.
    """
    from graphcheck.advisory.load import all_advisories
    from graphcheck.advisory.run import cached

    advisories = all_advisories()
    results = cached()
    if as_json:
        rows = [_plain(entry, results.get(entry.id)) for entry in advisories]
        emit(json.dumps(rows, indent=2) + "\n")
        return ExitCode.OK
    cells = [(a.id, a.rule, a.affected, _seen(a, results.get(a.id)), a.title) for a in advisories]
    emit(table(("id", "rule", "executorch", "this machine", "title"), cells, look()))
    return ExitCode.OK


@_app.command("show")
def show(
    advisory_id: Annotated[
        str, typer.Argument(metavar="ID", show_default=False, help="Such as GCA-2026-0001.")
    ],
    run_probe: Annotated[
        bool, typer.Option("--probe", help="Run its probe on the installed runtime, again.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Show one advisory: what is wrong, its evidence, what this machine does, and the mends."""
    from graphcheck.advisory.load import advisory_by_id
    from graphcheck.advisory.run import cached, probe
    from graphcheck.advisory.words import describe

    advisory = advisory_by_id(advisory_id)
    if advisory is None:
        raise _unknown(advisory_id)
    if run_probe:
        with Progress(0) as progress:
            results = probe([advisory.id], progress=progress, refresh=True)
    else:
        results = cached([advisory.id])
    result = results.get(advisory.id)
    if as_json:
        emit(json.dumps(_plain(advisory, result), indent=2) + "\n")
    else:
        width = min(look().width or 80, 100)
        emit(describe(advisory, result, width).rstrip("\n") + "\n")
    return ExitCode.OK


def _unknown(advisory_id: str) -> UsageError:
    from graphcheck.advisory.load import all_advisories

    ids = [entry.id for entry in all_advisories()]
    near = difflib.get_close_matches(advisory_id.upper(), ids, n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    return UsageError(
        f"There is no advisory `{advisory_id}`.",
        f"{guess}`graphcheck advisory list` lists all of them.",
    )


def _seen(advisory: Advisory, result: ProbeResult | None) -> str:
    if not advisory.probe:
        return "no probe"
    return result.outcome if result else "not probed yet"


def _plain(advisory: Advisory, result: ProbeResult | None) -> dict[str, object]:
    body: dict[str, object] = msgspec.to_builtins(advisory)
    body["this_machine"] = msgspec.to_builtins(result)
    return body


def _register(app: typer.Typer) -> None:
    app.add_typer(_app, name="advisory")


VERB = Verb(name="advisory", order=4, register=_register)
