"""`graphcheck rule [CODE]`: what the codes mean."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Annotated

import typer

from graphcheck.cli.interface import Verb
from graphcheck.cli.output import emit, look
from graphcheck.cli.tables import JsonOption, paragraph, table
from graphcheck.errors import ExitCode, UsageError
from graphcheck.report.ansi import Paint
from graphcheck.report.interface import Look

if TYPE_CHECKING:
    from graphcheck.rules.interface import Rule

__all__ = ["VERB", "rule"]


def rule(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="[CODE]", show_default=False, help="Such as GC301, or a family GC3."
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Explain every rule, not only list them.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Explain a rule, or list all of them."""
    if code is not None and everything:
        raise UsageError("CODE and --all exclude each other.", "Leave one of them out.")
    from graphcheck.rules.interface import all_rules

    rules = all_rules() if code is None else _named(code)
    shown = look()
    if as_json:
        emit(json.dumps([_plain(entry) for entry in rules], indent=2) + "\n")
    elif everything or (code is not None and rules[0].code == code.upper()):
        emit("\n".join(_explained(entry, shown) for entry in rules))
    else:
        rows = [(entry.code, entry.severity.value, entry.summary) for entry in rules]
        emit(table(("code", "severity", "what it finds"), rows, shown))
    return ExitCode.OK


def _named(code: str) -> tuple[Rule, ...]:
    from graphcheck.rules.interface import all_rules, rule_by_code

    found = rule_by_code(code)
    if found is not None:
        return (found,)
    family = tuple(entry for entry in all_rules() if entry.code.startswith(code.upper()))
    if family and code.upper() != "G":
        return family
    near = difflib.get_close_matches(code.upper(), [entry.code for entry in all_rules()], n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    raise UsageError(f"There is no rule `{code}`.", f"{guess}`graphcheck rule` lists all codes.")


def _plain(entry: Rule) -> dict[str, str]:
    return {
        "code": entry.code,
        "name": entry.name,
        "severity": entry.severity.value,
        "summary": entry.summary,
        "explanation": entry.explanation,
        "example": entry.example,
    }


def _explained(entry: Rule, shown: Look) -> str:
    paint = Paint(color=shown.color)
    parts = [
        f"{paint(entry.code, 'bold')} {entry.name} ({entry.severity.value})",
        paragraph(entry.summary, shown),
        paragraph(entry.explanation, shown),
    ]
    if entry.example:
        indented = "\n".join(
            f"    {line}".rstrip() for line in entry.example.strip("\n").splitlines()
        )
        parts.append(f"Example:\n\n{indented}")
    return "\n\n".join(parts) + "\n"


def _register(app: typer.Typer) -> None:
    app.command("rule")(rule)


VERB = Verb(name="rule", order=3, register=_register)
