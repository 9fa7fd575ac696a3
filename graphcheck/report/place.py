"""Where a finding is shown to be: short paths, lines and columns."""

from __future__ import annotations

import linecache
import os
import re
from pathlib import Path

from graphcheck.graph.types import Source
from graphcheck.rules.types import Finding

__all__ = ["column_of", "inside", "place_of", "short_path", "shorten"]

_PACKAGES = re.compile(r"^.*?[/\\](?:site|dist)-packages[/\\]")


def inside(file: str, root: Path) -> str:
    """`file` relative to `root` with forward slashes, "" when it lies elsewhere."""
    if not file:
        return ""
    try:
        relative = os.path.relpath(os.path.abspath(file), os.path.abspath(root))
    except ValueError:  # another drive
        return ""
    return "" if relative.startswith("..") else Path(relative).as_posix()


def short_path(file: str, root: Path) -> str:
    """The path as a reader knows it: below `root`, or below site-packages, or as it is."""
    library = _PACKAGES.sub("", file)
    if library != file:
        return library
    return inside(file, root) or file


def shorten(sentence: str, root: Path) -> str:
    """A sentence of another room with the paths in it relative to `root`."""
    return sentence.replace(f"{os.path.abspath(root)}{os.sep}", "")


def column_of(source: Source) -> int:
    """The 1-based column of the op on its line, 0 when the line cannot be read.

    Tracebacks of a traced program hold lines only, so this is where the call of the module
    stands (`self.pool(`), or else the first character of the statement.
    """
    line = linecache.getline(source.file, source.line) if source.file and source.line else ""
    if not line.strip():
        return 0
    name = source.module.rpartition(".")[2]
    if name.isidentifier():
        call = re.search(rf"\bself\.{re.escape(name)}\b", line)
        if call:
            return call.start() + 1
    return len(line) - len(line.lstrip()) + 1


def place_of(finding: Finding, target: str, root: Path) -> str:
    """`model.py:42:9`; the target when the finding has no place of its own."""
    source = finding.source
    if not source.file:
        return target
    parts = [short_path(source.file, root)]
    if source.line:
        parts.append(str(source.line))
        column = column_of(source)
        if column:
            parts.append(str(column))
    return ":".join(parts)
