"""What of an export's options can be refused before any work."""

from __future__ import annotations

import os
from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.export.types import ExportOptions
from graphcheck.files import one_of, refusal

__all__ = ["checked_output"]


def checked_output(options: ExportOptions) -> Path:
    """The path to write to. Raises UsageError for a place or a choice that cannot be."""
    _check_preference(options)
    path = Path(options.output)
    if os.path.isdir(path):  # also of a name too long to ask for
        raise UsageError(f"{path} is a folder", "name a file: -o model.pte")
    if path.parent.exists() and not path.parent.is_dir():
        raise UsageError(
            f"{path} cannot be written: {path.parent} is a file, not a folder",
            "name another place with -o",
        )
    if not path.parent.is_dir():
        raise UsageError(
            f"{path} cannot be written: there is no folder {path.parent}",
            f"make it first: mkdir -p {path.parent}",
        )
    given = (options.target, options.data, *options.kernel_libraries, *options.stamps)
    for written in _files(path):
        read = one_of(written, given)
        if read:
            raise UsageError(
                f"{written} would be written over {read}, which is read",
                "name another place with -o",
            )
    # Permissions do not tell of a read-only disk, a folder of the kernel or a name too long.
    for written in _files(path):
        why = refusal(written)
        if why:
            raise UsageError(f"{written} cannot be written: {why}", "name another place with -o")
    return path


def _files(path: Path) -> tuple[Path, ...]:
    return path, path.with_suffix(".card.json"), path.with_suffix(".inputs.bin")


def _check_preference(options: ExportOptions) -> None:
    if options.prefer not in ("patch", "rewrite"):
        raise UsageError(
            f"no such preference: {options.prefer!r}", "use --prefer rewrite or --prefer patch"
        )
    if options.prefer == "patch" and not options.kernel_libraries:
        raise UsageError(
            "--prefer patch needs a kernel library: without one there is no patched kernel to use",
            "build one with graphcheck patch build -o DIR, and name it with --kernel-library",
        )
