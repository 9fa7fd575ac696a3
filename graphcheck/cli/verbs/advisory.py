"""`graphcheck advisory`: kernels that are known to be wrong."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from graphcheck.cli.interface import Verb
from graphcheck.cli.output import emit, look
from graphcheck.cli.tables import JsonOption, paragraph, table
from graphcheck.errors import ExitCode, UsageError
from graphcheck.report.ansi import Paint
from graphcheck.report.interface import Look
from graphcheck.report.words import mend_label

if TYPE_CHECKING:
    from graphcheck.advisory.types import Advisory

__all__ = ["VERB"]

_app = typer.Typer(help="List or show known-wrong kernels.", rich_markup_mode=None)


@_app.command("list")
def list_advisories(as_json: JsonOption = False) -> int:
    """List the known-wrong kernels, and whether they concern the installed version."""
    from graphcheck.advisory.load import all_advisories

    advisories = all_advisories()
    if as_json:
        emit(json.dumps([_plain(entry) for entry in advisories], indent=2) + "\n")
        return ExitCode.OK
    rows = [(a.id, a.rule, a.affected, _concerns(a), a.title) for a in advisories]
    emit(table(("id", "rule", "executorch", "installed", "title"), rows, look()))
    return ExitCode.OK


@_app.command("show")
def show(
    advisory_id: Annotated[
        str, typer.Argument(metavar="ID", show_default=False, help="Such as GCA-2026-0001.")
    ],
    as_json: JsonOption = False,
) -> int:
    """Show one advisory: what is wrong, its evidence, and the mends."""
    from graphcheck.advisory.load import advisory_by_id, all_advisories

    advisory = advisory_by_id(advisory_id)
    if advisory is None:
        ids = [entry.id for entry in all_advisories()]
        near = difflib.get_close_matches(advisory_id.upper(), ids, n=1)
        guess = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"There is no advisory `{advisory_id}`.",
            f"{guess}`graphcheck advisory list` lists all of them.",
        )
    if as_json:
        emit(json.dumps(_plain(advisory), indent=2) + "\n")
    else:
        emit(_text(advisory, look()))
    return ExitCode.OK


def _concerns(advisory: Advisory) -> str:
    """Whether the installed executorch is in the affected range; the probe is the proof."""
    from importlib import metadata

    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        version = Version(metadata.version("executorch").partition("+")[0])
    except (metadata.PackageNotFoundError, InvalidVersion):
        return "unknown"
    inside = SpecifierSet(advisory.affected).contains(version, prereleases=True)
    return "affected" if inside else "not affected"


def _plain(advisory: Advisory) -> dict[str, object]:
    body: dict[str, object] = msgspec.to_builtins(advisory)
    body["installed"] = _concerns(advisory)
    return body


def _text(advisory: Advisory, shown: Look) -> str:
    paint = Paint(color=shown.color)
    facts = [
        ("rule", f"{advisory.rule} (`graphcheck rule {advisory.rule}`)"),
        ("ops", ", ".join(advisory.ops)),
        ("kernels", ", ".join(advisory.kernels)),
        ("executorch", f"{advisory.affected}; the installed version is {_concerns(advisory)}"),
        ("fixed in", advisory.fixed_in),
        ("probe", advisory.probe or "none, this fault cannot be probed"),
        ("references", ", ".join(advisory.references)),
    ]
    given = [(name, text) for name, text in facts if text]
    parts = [
        f"{paint(advisory.id, 'bold')} {advisory.title}",
        "\n".join(f"  {name:<10}  {text}" for name, text in given),
        paragraph(advisory.what, shown),
        paragraph(advisory.consequence, shown),
    ]
    if advisory.evidence:
        parts.append("Evidence:\n" + "\n".join(f"  - {line}" for line in advisory.evidence))
    if advisory.mends:
        parts.append("Mends:\n" + "\n".join(_mend(mend) for mend in advisory.mends))
    return "\n\n".join(parts) + "\n"


def _mend(mend: object) -> str:
    assert isinstance(mend, dict)
    label = mend_label(exact=bool(mend["exact"]))
    command = f"\n      {mend['command']}" if mend.get("command") else ""
    return f"  - {mend['kind']} {mend['name']} ({label}): {mend['description']}{command}"


def _register(app: typer.Typer) -> None:
    app.add_typer(_app, name="advisory")


VERB = Verb(name="advisory", order=4, register=_register)
