"""Plain tables and paragraphs, the same on a terminal and in a pipe."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Annotated

import typer

from graphcheck.errors import UsageError
from graphcheck.report.ansi import Paint
from graphcheck.report.interface import Look

__all__ = ["FormatChoice", "JsonOption", "paragraph", "table", "wants_json"]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FormatChoice = Annotated[
    str | None, typer.Option("--output-format", metavar="FORMAT", help="text (default) or json.")
]
_WIDTH = 80


def wants_json(flag: bool, chosen: str | None) -> bool:
    """Whether `--json` or `--output-format json` was given. Raises UsageError for another one."""
    if chosen not in (None, "text", "json"):
        raise UsageError(f"There is no output format `{chosen}`.", "Choose text or json.")
    return flag or chosen == "json"


def paragraph(text: str, look: Look) -> str:
    """Prose, one paragraph for each one in `text`, wrapped to the terminal or to 80 columns."""
    width = min(look.width or _WIDTH, 100)
    parts = (" ".join(part.split()) for part in text.strip().split("\n\n"))
    return "\n\n".join(textwrap.fill(part, width, break_on_hyphens=False) for part in parts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], look: Look) -> str:
    """Columns with two spaces between; the last one is wrapped on a terminal."""
    paint = Paint(color=look.color)
    sizes = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head) - 1)]
    left = sum(sizes) + 2 * len(sizes)
    lines = []
    for row in (head, *rows):
        cells = "".join(f"{cell:<{size}}  " for cell, size in zip(row, sizes, strict=False))
        room = max(20, look.width - left) if look.width else 0
        last = textwrap.wrap(row[-1], room, break_on_hyphens=False) if room else [row[-1]]
        first, *more = last or [""]
        line = (cells + first).rstrip()
        lines.append(paint(line, "bold") if row is head else line)
        lines.extend(" " * left + part for part in more)
    return "\n".join(lines) + "\n"
