"""The subcommands of `graphcheck patch` that work on source trees."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphcheck.cli.output import check_output, emit, emit_bytes, emit_line, look, say
from graphcheck.cli.tables import JsonOption, table
from graphcheck.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from graphcheck.patch.description import Patch
    from graphcheck.patch.source.run import Outcome, Selection
    from graphcheck.patch.source.survey import PatchState

__all__ = ["add_source_commands"]

_SourceOption = Annotated[
    Path,
    typer.Option("--source", metavar="DIR", show_default=False, help="Top of the source tree."),
]
_OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="ID", help="Only this patch; may be repeated."),
]
_PatchesOption = Annotated[
    Path | None,
    typer.Option("--patches", metavar="DIR", help="Folder with further descriptions of patches."),
]


def add_source_commands(app: typer.Typer) -> None:
    """Add list, status, apply, revert, diff and cmake-dir."""
    for function in (status, apply, revert, diff):
        app.command(function.__name__)(function)
    app.command("list")(list_patches)
    app.command("cmake-dir")(cmake_dir)


def list_patches(patches: _PatchesOption = None, as_json: JsonOption = False) -> int:
    """List all patches: what is wrong, where, and how each can be mended."""
    from graphcheck.patch.description import all_patches, read_patches

    known = (*all_patches(), *(read_patches(patches) if patches else ()))
    if as_json:
        emit(json.dumps([_described(patch) for patch in known], indent=2) + "\n")
        return ExitCode.OK
    rows = [(p.id, p.project, p.affected, " + ".join(_ways(p)), p.title) for p in known]
    emit(table(("id", "project", "affected", "as", "title"), rows, look()))
    return ExitCode.OK


def cmake_dir() -> int:
    """Print the folder to give to CMake's add_subdirectory; `cmake/` in it has the modules."""
    from graphcheck.resources import patches_dir

    emit_line(str(patches_dir()))
    return ExitCode.OK


def status(
    source: _SourceOption,
    only: _OnlyOption = None,
    patches: _PatchesOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show which patches a source tree needs, has, or cannot take. Changes nothing."""
    from graphcheck.patch.source.run import status as find

    outcome = find(_selected(source, only, patches))
    _show(outcome, as_json)
    if not as_json:
        emit_line(_summary(outcome, source, only, patches))
    return ExitCode.OK


def apply(
    source: _SourceOption,
    only: _OnlyOption = None,
    patches: _PatchesOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 if a patch is needed.")
    ] = False,
    stamp: Annotated[
        Path | None,
        typer.Option("--stamp", metavar="FILE", help="Write a stamp for `check --stamp`."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Apply every patch that a source tree needs, or none if one does not fit.

    Applied already, fixed upstream and not applicable are fine. Doing it again changes nothing.
    """
    from graphcheck.patch.source import run
    from graphcheck.patch.source.stamp import stamp_of
    from graphcheck.patch.source.states import State

    check_output(stamp, "--stamp")
    selection = _selected(source, only, patches)
    outcome = run.status(selection) if check else run.apply(selection)
    _tell_completed(outcome, check)
    _show(outcome, as_json)
    open_ = (State.NEEDED, State.CONFLICT)
    bad = bool(check and outcome.interrupted) or any(s.state in open_ for s in outcome.states)
    if not as_json:
        told = _summary(outcome, source, only, patches) if check else _changed(outcome)
        emit_line(told)
    fits = any(state.state in (State.APPLIED, State.FIXED) for state in outcome.states)
    if check and not bad and not fits and not only:
        raise UsageError(
            f"No patch fits {outcome.tree.root}: none of the files to edit is there.",
            "Name the top folder of an ExecuTorch source tree with --source.",
        )
    if bad:
        return ExitCode.FINDINGS
    if stamp is not None:
        emit(stamp_of(outcome), stamp)
    return ExitCode.OK


def revert(
    source: _SourceOption,
    only: _OnlyOption = None,
    patches: _PatchesOption = None,
    as_json: JsonOption = False,
) -> int:
    """Take patches back: files are as they were before, to the byte."""
    from graphcheck.patch.source import run

    outcome = run.revert(_selected(source, only, patches))
    _tell_completed(outcome, check=False)
    _show(outcome, as_json)
    if not as_json:
        emit_line(_changed(outcome))
    return ExitCode.OK


def diff(
    source: _SourceOption,
    only: _OnlyOption = None,
    patches: _PatchesOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the diff to this file."),
    ] = None,
) -> int:
    """Print what `apply` would change, for `git apply`. Exit code 1 if there is something."""
    from graphcheck.patch.source import run

    check_output(output)
    data = run.diff(_selected(source, only, patches))
    emit_bytes(data, output)
    return ExitCode.FINDINGS if data else ExitCode.OK


def _selected(source: Path, only: list[str] | None, patches: Path | None) -> Selection:
    from graphcheck.patch.source.run import select

    return select(source, tuple(only or ()), patches)


def _ways(patch: Patch) -> list[str]:
    ways = (("library", patch.kernel), ("source edit", patch.source))
    return [name for name, there in ways if there is not None] or ["description only"]


def _described(patch: Patch) -> dict[str, object]:
    return {
        "id": patch.id,
        "title": patch.title,
        "project": patch.project,
        "affected": patch.affected,
        "advisories": list(patch.advisories),
        "kernels": list(patch.kernels),
        "wrong": patch.wrong,
        "cost": patch.cost,
        "leaves": patch.source.leaves if patch.source else "",
        "as": _ways(patch),
    }


def _show(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        body = {
            "schema": 1,
            "project": outcome.tree.project.name,
            "version": outcome.tree.version,
            "interrupted": outcome.interrupted,
            "patches": [_row(state) for state in outcome.states],
            "changed": list(outcome.changed),
        }
        emit(json.dumps(body, indent=2) + "\n")
        return
    rows = [
        (state.patch.id, state.state.value, state.reason or ", ".join(state.files))
        for state in outcome.states
    ]
    emit(table(("patch", "state", "where, or why"), rows, look()))


def _row(state: PatchState) -> dict[str, object]:
    return {
        "id": state.patch.id,
        "state": state.state.value,
        "reason": state.reason,
        "files": list(state.files),
    }


def _tell_completed(outcome: Outcome, check: bool) -> None:
    if outcome.interrupted and not check:
        say(f"`graphcheck patch {outcome.interrupted}` had been interrupted; it is complete now.")


def _tree(outcome: Outcome) -> str:
    version = f" {outcome.tree.version}" if outcome.tree.version else ", version unknown"
    return f"{outcome.tree.project.title}{version}"


def _summary(outcome: Outcome, source: Path, only: list[str] | None, patches: Path | None) -> str:
    counts = Counter(state.state.value for state in outcome.states)
    told = ", ".join(f"{count} {state}" for state, count in counts.items()) or "no patches"
    words = ["graphcheck", "patch", "apply", "--source", str(source)]
    for name in only or ():
        words += ("--only", name)
    if patches is not None:
        words += ("--patches", str(patches))
    line = f"{_tree(outcome)}: {told}."
    if outcome.interrupted:
        line += f" `graphcheck patch {outcome.interrupted}` was interrupted here."
    if outcome.interrupted or counts["needed"]:
        line += f" Next: {shlex.join(words)}"
    return line


def _changed(outcome: Outcome) -> str:
    count = len(outcome.changed)
    if not count:
        return f"{_tree(outcome)}: nothing to do, no file changed."
    return f"{_tree(outcome)}: {count} {'file' if count == 1 else 'files'} changed."
