"""What of an export's options can be refused before any work."""

from __future__ import annotations

from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.export.types import ExportOptions
from graphcheck.files import check_place

__all__ = ["checked_output"]


def checked_output(options: ExportOptions) -> Path:
    """The path to write to. Raises UsageError for a place or a choice that cannot be."""
    _check_preference(options)
    path = Path(options.output)
    given = (options.target, options.data, *options.kernel_libraries, *options.stamps)
    for written in _files(path):
        check_place(written, "-o", given)
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
