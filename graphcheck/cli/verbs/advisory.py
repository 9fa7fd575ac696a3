"""`graphcheck advisory`: kernels that are known to be wrong."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from graphcheck.cli.interface import Verb
from graphcheck.cli.output import check_output, emit, look, say
from graphcheck.cli.progress import Progress
from graphcheck.cli.tables import FormatChoice, JsonOption, table, wants_json
from graphcheck.counted import counted
from graphcheck.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from graphcheck.advisory.types import Advisory, ProbeResult

__all__ = ["VERB"]

_app = typer.Typer(help="List, show, verify or export known-wrong kernels.", rich_markup_mode=None)


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
    from graphcheck.advisory.run import cached, probe
    from graphcheck.advisory.words import describe

    advisory = _by_id(advisory_id)
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


@_app.command("verify")
def verify(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", show_default=False, help="Advisories; default is all."),
    ] = None,
    installed: Annotated[
        bool, typer.Option("--installed", help="Probe the installed runtime (the default).")
    ] = True,
    libraries: Annotated[
        list[Path] | None,
        typer.Option("--kernel-library", metavar="FILE", help="Load this library before."),
    ] = None,
    as_json: JsonOption = False,
    output_format: FormatChoice = None,
) -> int:
    """Run the probes on the installed runtime: known wrong, fixed, or could not run.

    Each runs in a child process with a time limit. Exit code 0: every probe ran and agrees with
    the version range of its advisory (which a kernel library may change); 1: one does not, or
    could not run. The probe counts, and both are shown.
    """
    from graphcheck.advisory.run import probe
    from graphcheck.cli.advisory_text import judge, verify_json, verify_text

    advisories = [_by_id(name) for name in ids or ()] or _all()
    paths = [str(path.absolute()) for path in libraries or ()]
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(
                f"--kernel-library {path}: there is no such file.",
                "Check the path; graphcheck patch build -o DIR makes such a library.",
            )
    as_plain = wants_json(as_json, output_format)
    with Progress(0) as progress:
        results = probe(
            [a.id for a in advisories], progress=progress, refresh=True, libraries=paths
        )
    answers = [judge(a, results.get(a.id), paths) for a in advisories]
    if as_plain:
        emit(json.dumps(verify_json(answers), indent=2) + "\n")
    else:
        emit(verify_text(answers, look()))
    bad = any(answer.disagrees or answer.said == "could not run" for answer in answers)
    return ExitCode.FINDINGS if bad else ExitCode.OK


@_app.command("export")
def export(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", show_default=False, help="Advisories; default is all."),
    ] = None,
    osv: Annotated[bool, typer.Option("--osv", help="As OSV documents (the only format).")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR|FILE",
            help="A folder for one file each, or a file for a list; default is stdout.",
        ),
    ] = None,
) -> int:
    """Write advisories in the Open Source Vulnerability format, as JSON."""
    from graphcheck.advisory.osv import to_osv

    if not osv:
        raise UsageError("There is one format to export advisories in.", "Add --osv.")
    documents = [to_osv(advisory) for advisory in [_by_id(i) for i in ids or ()] or _all()]
    if output is not None and output.is_dir():
        for document in documents:
            text = json.dumps(document, indent=2) + "\n"
            emit(text, output / f"{document['id']}.json")
        say(f"{counted(len(documents), 'document')} written to {output}")
        return ExitCode.OK
    check_output(output)
    emit(json.dumps(documents, indent=2) + "\n", output)
    if output is not None:
        say(f"{counted(len(documents), 'document')} written to {output}")
    return ExitCode.OK


def _all() -> list[Advisory]:
    from graphcheck.advisory.load import all_advisories

    return list(all_advisories())


def _by_id(advisory_id: str) -> Advisory:
    from graphcheck.advisory.load import advisory_by_id

    advisory = advisory_by_id(advisory_id)
    if advisory is None:
        raise _unknown(advisory_id)
    return advisory


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
