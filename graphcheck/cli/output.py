"""Results go to stdout or a file, everything else to stderr. Nothing else of graphcheck prints."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from graphcheck.errors import UsageError
from graphcheck.files import check_place, write_atomic
from graphcheck.report.ansi import Paint
from graphcheck.report.interface import Look

__all__ = [
    "check_output",
    "complain",
    "emit",
    "emit_bytes",
    "emit_line",
    "look",
    "say",
    "wants_color",
]

_PLACE = "Name a file in a folder that is there and can be written to."


def wants_color(stream: TextIO) -> bool:
    """Whether to write colours there: a terminal, and the user has not set NO_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def look(verbosity: int = 0, output: Path | None = None, again: str = "") -> Look:
    """How to show a report on stdout, or in the file `output`; `again` as in `Look`."""
    if output is not None:
        return Look(verbosity=verbosity, root=Path.cwd(), again=again)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return Look(width, wants_color(sys.stdout), _can_encode("▁█"), verbosity, Path.cwd(), again)


def _can_encode(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def check_output(path: Path | None, option: str = "--output", reads: Iterable[object] = ()) -> None:
    """Refuse an output file that cannot be written, before any work. Raises UsageError.

    `reads` are the options that name files to read: none of them may be written over.
    """
    if path is not None:
        check_place(path, option, reads, shown=f"{option} {path}")


def emit(text: str, output: Path | None = None) -> None:
    """Write a result to stdout, or atomically to a file. Raises UsageError if that fails."""
    if output is None:
        _write(sys.stdout, text)
        return
    try:
        write_atomic(output, text)
    except OSError as error:
        raise UsageError(
            f"--output {output} cannot be written: {error.strerror}.",
            _PLACE,
        ) from error


def emit_bytes(data: bytes, output: Path | None = None) -> None:
    """Write a result that must stay as it is to the byte. Raises UsageError if that fails."""
    if output is not None:
        try:
            write_atomic(output, data)
        except OSError as error:
            raise UsageError(
                f"--output {output} cannot be written: {error.strerror}.",
                _PLACE,
            ) from error
        return
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # a stream of text that someone put in the place of stdout
        _write(sys.stdout, data.decode("utf-8", "replace"))
        return
    try:
        sys.stdout.flush()
        buffer.write(data)
        buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def emit_line(text: str = "") -> None:
    """One line of a result."""
    _write(sys.stdout, text + "\n")


def say(text: str) -> None:
    """One line of progress or advice, on stderr."""
    _write(sys.stderr, text + "\n")


def complain(message: str, hint: str = "") -> None:
    """An error and what to do next, on stderr."""
    paint = Paint(color=wants_color(sys.stderr))
    say(f"{paint('graphcheck: error:', 'red', 'bold')} {message}")
    if hint:
        say(f"{paint('next:', 'bold')} {hint}")


def _write(stream: TextIO, text: str) -> None:
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        # The reader has seen enough (`| head`). The exit code still tells the answer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
