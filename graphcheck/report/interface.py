"""The form every output format has, and the registry that finds the formats.

A format is one file of `graphcheck.report.formats` that defines `FORMAT = Format(...)`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphcheck.report.types import Report

if TYPE_CHECKING:
    from graphcheck.validate.types import Verdict

__all__ = ["Format", "Look", "all_formats", "find_format", "format_names"]


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


def format_names() -> tuple[str, ...]:
    """The names of the formats, which are those of their files."""
    import graphcheck.report.formats as package

    return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__)))


def all_formats() -> tuple[Format, ...]:
    """Every format, in order of name."""
    return tuple(map(_load, format_names()))


def find_format(name: str) -> Format | None:
    """The format of this name, or None."""
    return _load(name) if name in format_names() else None


def _load(name: str) -> Format:
    module = importlib.import_module(f"graphcheck.report.formats.{name}")
    found: Format = module.FORMAT
    if found.name != name:
        raise ValueError(f"the format {found.name} is in the file of {name}")
    return found
