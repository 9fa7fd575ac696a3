"""The form every output format has, and the registry that finds the formats.

A format is one file of `graphcheck.report.formats` that defines `FORMAT = Format(...)`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from graphcheck.report.types import Report
from graphcheck.validate.types import Verdict

__all__ = ["Format", "Look", "all_formats", "find_format"]


@dataclass(frozen=True)
class Look:
    """How to show a report: what the reader's terminal can do and how much he wants to see.

    `width` is in columns, None for no wrapping (a file or a pipe). `verbosity` is -1 for quiet,
    0, or more for details. Paths below `root` are shown relative to it. `again` are the
    options that a next command on the same target has to repeat.
    """

    width: int | None = None
    color: bool = False
    unicode: bool = True
    verbosity: int = 0
    root: Path = Path()
    again: str = ""


@dataclass(frozen=True)
class Format:
    """One output format; both functions give the whole text with its final newline."""

    name: str
    summary: str
    report: Callable[[Report, Look], str]
    verdict: Callable[[Verdict, Look], str]


def all_formats() -> tuple[Format, ...]:
    """Every format, in order of name. Raises ValueError when two share a name."""
    import graphcheck.report.formats as package

    formats: dict[str, Format] = {}
    for module in pkgutil.iter_modules(package.__path__):
        entry = importlib.import_module(f"{package.__name__}.{module.name}").FORMAT
        if entry.name in formats:
            raise ValueError(f"two formats have the name {entry.name}")
        formats[entry.name] = entry
    return tuple(formats[name] for name in sorted(formats))


def find_format(name: str) -> Format | None:
    """The format of this name, or None."""
    return next((entry for entry in all_formats() if entry.name == name), None)
