"""Running the user's code: whatever it does, the answer is a `ModelError` that names the line."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType

from graphcheck.errors import GraphcheckError, ModelError

__all__ = [
    "Frame",
    "calling_frame",
    "describe_exception",
    "frame_among",
    "is_out_of_memory",
    "is_users_own",
    "printable",
    "running_user_code",
    "shown_path",
    "user_frame",
]

_MEMORY_MARKS = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc")


@dataclass(frozen=True)
class Frame:
    """A line of the user's program; `file` is shown relative to the working folder."""

    file: str
    line: int
    code: str
    function: str

    def __str__(self) -> str:
        code = f" `{self.code}`" if self.code else ""
        return f"{self.file}:{self.line}{code}"


def shown_path(path: str) -> str:
    """The path as a linter shows it: relative when it lies below the working folder."""
    try:
        relative = os.path.relpath(path)
    except ValueError:
        return printable(path)
    return printable(path if relative.startswith("..") else relative)


def printable(text: str) -> str:
    """One line without control characters: runs of space become one, others are escaped."""
    text = " ".join(text.split())
    return text if text.isprintable() else repr(text)[1:-1]


@lru_cache(maxsize=1)
def _foreign_folders() -> tuple[str, ...]:
    """Folders of Python, whose frames are not the user's own unless he works there."""
    paths = sysconfig.get_paths()
    return tuple(os.path.join(folder, "") for folder in (paths["stdlib"], paths["platstdlib"]))


_OURS = os.path.join(str(Path(__file__).resolve().parent.parent), "")
"""Frames of this package are never the user's own, even where he works in its checkout."""


@lru_cache(maxsize=1)
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(os.path.join(paths[name], "") for name in ("purelib", "platlib"))


def user_frame(
    trace: TracebackType | None, error: BaseException | None = None, folder: str = ""
) -> Frame | None:
    """The innermost frame that is the user's own; else the innermost of a library but torch.

    A frame below `folder` is always the user's. A SyntaxError points at the line it complains of.
    """
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        text = error.text or linecache.getline(error.filename, error.lineno)
        return Frame(shown_path(error.filename), error.lineno, printable(text), "")
    return _innermost(traceback.walk_tb(trace), folder)


def calling_frame(folder: str = "") -> Frame | None:
    """The innermost frame of the running program that is the user's own."""
    frames = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return _innermost(reversed(frames), folder)


def _innermost(frames: Iterable[tuple[FrameType, int]], folder: str) -> Frame | None:
    own: Frame | None = None
    library: Frame | None = None
    for summary, lineno in frames:
        name = summary.f_code.co_filename
        if name.startswith(("<", _OURS)):
            continue
        inside = bool(folder) and name.startswith(os.path.join(folder, ""))
        is_library = not inside and name.startswith(_library_folders())
        if not inside and not is_library and name.startswith(_foreign_folders()):
            continue
        if is_library and f"{os.sep}torch{os.sep}" in name:
            continue
        code = printable(linecache.getline(name, lineno))
        frame = Frame(shown_path(name), lineno, code, summary.f_code.co_name)
        if is_library:
            library = frame
        else:
            own = frame
    return own or library


def frame_among(places: Iterable[tuple[str, int]]) -> Frame | None:
    """The first of these files and lines that is the user's own."""
    for file, line in places:
        if is_users_own(file):
            return Frame(shown_path(file), line, printable(linecache.getline(file, line)), "")
    return None


def is_users_own(file: str) -> bool:
    """Whether the file is neither Python's, nor an installed package's, nor of this package."""
    return not file.startswith((*_library_folders(), *_foreign_folders(), _OURS, "<"))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python or torch could not get memory."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(mark in str(error) for mark in _MEMORY_MARKS)
    )


def describe_exception(error: BaseException, limit: int = 400) -> str:
    """`NameError: name 'foo' is not defined`: one line, never longer than `limit`."""
    try:
        text = printable(str(error))
    except Exception:
        text = ""
    name = type(error).__name__
    if isinstance(error, SyntaxError) and error.msg:
        text = error.msg
    text = f"{name}: {text}" if text else name
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _next_step(error: BaseException, hint: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return (
            f"Install {error.name.partition('.')[0]} in the environment of {sys.executable}, or "
            f"start graphcheck in the folder that holds it."
        )
    return hint


@contextlib.contextmanager
def running_user_code(
    what: str, *, hint: str = "", code: str = "GC001", folder: str = ""
) -> Iterator[None]:
    """Turn everything but KeyboardInterrupt that the block raises into a ModelError.

    `what` is the start of the sentence (`model.py could not be imported`).
    """
    try:
        yield
    except (GraphcheckError, KeyboardInterrupt):
        raise
    except BaseException as error:
        frame = user_frame(error.__traceback__, error, folder)
        where = f" ({frame})" if frame else ""
        if is_out_of_memory(error):
            raise ModelError(
                f"{what}: it asked for more memory than there is{where}.",
                "Use smaller example inputs or a smaller model.",
                "GC012",
            ) from error
        if isinstance(error, SystemExit):
            raise ModelError(
                f"{what}: it ended the program with exit code {error.code!r}{where}.",
                "Keep code that exits under `if __name__ == '__main__':`.",
                code,
            ) from error
        raise ModelError(
            f"{what}: {describe_exception(error)}{where}.", _next_step(error, hint), code
        ) from error
