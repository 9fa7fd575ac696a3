"""Which files are the user's own, and whether git has their present state."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from graphcheck.process import run_command

__all__ = ["is_dirty", "is_own"]


def is_own(file: str, target: str) -> bool:
    """Whether `file` belongs to the project of the target file: in its folder, or its package's.

    Installed packages, Python itself and graphcheck never do, wherever they live.
    """
    if not file or not target or not os.path.isfile(file):
        return False
    path = os.path.realpath(file)
    paths = sysconfig.get_paths()
    foreign = [paths[name] for name in ("purelib", "platlib", "stdlib", "platstdlib")]
    foreign.append(str(Path(__file__).resolve().parent.parent))
    if any(path.startswith(os.path.realpath(folder) + os.sep) for folder in foreign):
        return False
    folder = Path(os.path.realpath(target)).parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return path.startswith(str(folder) + os.sep)


def is_dirty(file: Path) -> bool:
    """Whether git has not the present state of a file; False outside a repository."""
    try:
        ended = run_command(
            ["git", "status", "--porcelain", "--ignored", "--", file.name],
            timeout=30,
            cwd=str(file.parent),
        )
    except FileNotFoundError:
        return False
    return ended.code == 0 and bool(ended.output.strip())
