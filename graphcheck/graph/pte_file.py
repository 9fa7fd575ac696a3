"""A `.pte` as a file: what it is, whether all of it is there, and which part is the program."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from collections.abc import Iterator

from graphcheck.errors import ModelError
from graphcheck.graph.flatbuffer import CorruptBufferError
from graphcheck.spill import Buffer

__all__ = ["open_program", "program_bytes"]

_IDENTIFIER = b"ET12"
_HEADER_MAGIC = b"eh00"
_HINT = "Give the .pte file that to_executorch() wrote."
_OTHERS = (
    (4, b"FT01", "is a .ptd file, the data of a program and not the program"),
    (0, b"PK\x03\x04", "is a zip archive (a .pt2 or a checkpoint), not an ExecuTorch program"),
    (0, b"\x80\x02", "is a pickle, not an ExecuTorch program"),
)


@contextlib.contextmanager
def open_program(name: str) -> Iterator[Buffer]:
    """The bytes of a file, mapped. Raises ModelError for what cannot be read."""
    try:
        # Opening a pipe would wait for somebody who writes.
        number = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "no regular file"
            raise ModelError(f"{name} is {what}, not an ExecuTorch program", _HINT)
        try:
            size = os.fstat(number).st_size
            data: Buffer = mmap.mmap(number, 0, access=mmap.ACCESS_READ) if size else b""
        except OSError as error:
            raise _unreadable(name, error) from None
    finally:
        os.close(number)
    try:
        yield data
    finally:
        if isinstance(data, mmap.mmap):
            # A frame of an error may still look at it; then it goes with the frame.
            with contextlib.suppress(BufferError):
                data.close()


def _unreadable(name: str, error: OSError | ValueError) -> ModelError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return ModelError(
        f"{name} cannot be read: {why}", "Give the .pte file that to_executorch() wrote."
    )


def program_bytes(data: memoryview, name: str) -> tuple[memoryview, int]:
    """The flatbuffer at the head of the file, and where the file's segments start.

    Raises ModelError for a file that is no program, CorruptBufferError for one that is cut off.
    """
    if bytes(data[4:8]) != _IDENTIFIER:
        raise ModelError(f"{name} {_what_it_is(data)}", _HINT)
    if bytes(data[8:12]) != _HEADER_MAGIC:
        return data, len(data)
    if len(data) < 32:
        raise CorruptBufferError("it ends within its header")
    length = int.from_bytes(data[12:16], "little")
    size = int.from_bytes(data[16:24], "little")
    segments = int.from_bytes(data[24:32], "little")
    segment_size = int.from_bytes(data[32:40], "little") if length >= 32 else 0
    expected = max(size, segments + segment_size)
    if len(data) < expected:
        raise CorruptBufferError(f"it is truncated to {len(data)} of {expected} bytes")
    return data[:size], segments


def _what_it_is(data: memoryview) -> str:
    if not data:
        return "is empty, not an ExecuTorch program"
    for at, magic, words in _OTHERS:
        if bytes(data[at : at + len(magic)]) == magic:
            return words
    return "is not an ExecuTorch program (its bytes 4 to 8 are not 'ET12')"
