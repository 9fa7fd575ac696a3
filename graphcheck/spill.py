"""Large data that is not needed now, on the disk: its pages may leave memory and come back.

A proof of a model holds its weights several times: the program, and copies that eager training
starts from. They are put into files without a name, which are mapped: a page costs memory when it
is used, and what is written to it stays in this process (copy-on-write).
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import tempfile
from collections.abc import Mapping
from typing import IO, Any

__all__ = ["LARGE_BYTES", "Buffer", "edited", "park_", "parked", "release"]

LARGE_BYTES = 64 << 20
"""What is smaller stays in memory."""
_ALIGNMENT = 64

Buffer = bytes | mmap.mmap
"""Bytes in memory, or those of a file that is mapped."""


def parked(data: bytes) -> Buffer:
    """The same bytes; large ones in a file, for as long as the answer lives.

    Where the disk has no room, they stay in memory.
    """
    return data if len(data) < LARGE_BYTES else edited(data, {})


def edited(data: Buffer, changes: Mapping[int, bytes]) -> Buffer:
    """A copy of `data` with other bytes at these positions, kept as `parked` keeps it."""
    if len(data) >= LARGE_BYTES:
        try:
            with tempfile.TemporaryFile(prefix="graphcheck-") as stream:
                stream.write(data)
                for position, wanted in changes.items():
                    stream.seek(position)
                    stream.write(wanted)
                return _mapped(stream)
        except OSError:
            pass
    copied = bytearray(data)
    for position, wanted in changes.items():
        copied[position : position + len(wanted)] = wanted
    return bytes(copied)


def park_(module: Any) -> None:
    """Move the parameters of a module, in place, into a mapped file if they are large together.

    Values, names, hooks and identities stay; a parameter whose memory something else uses, too
    (a buffer, a view), stays where it is.
    """
    import torch

    parameters = [p for p in dict.fromkeys(module.parameters()) if _alone(p)]
    size = sum(_room(p.nbytes) for p in parameters)
    if size < LARGE_BYTES:
        return
    try:
        with tempfile.TemporaryFile(prefix="graphcheck-") as stream:
            for parameter in parameters:
                raw = parameter.detach().reshape(-1).view(torch.uint8).numpy()
                stream.write(raw.data)
                stream.write(bytes(_room(parameter.nbytes) - parameter.nbytes))
            mapping = _mapped(stream)
    except OSError:
        return
    at = 0
    for parameter in parameters:
        flat = torch.frombuffer(mapping, dtype=parameter.dtype, count=parameter.numel(), offset=at)
        at += _room(parameter.nbytes)
        parameter.data = flat.view(parameter.shape)
    release()


def release() -> None:
    """Give memory that is free, but kept by the allocator, back to the system (glibc alone)."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _mapped(stream: IO[bytes]) -> mmap.mmap:
    stream.flush()
    return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)


def _room(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _alone(parameter: Any) -> bool:
    """Whether a parameter is plain memory that belongs to nothing else."""
    import torch

    users = getattr(torch._C, "_storage_Use_Count", None)
    if users is None or type(parameter.data) is not torch.Tensor:
        return False
    if parameter.device.type != "cpu" or parameter.layout is not torch.strided:
        return False
    plain = torch.empty(1)
    storage, usual = parameter.untyped_storage(), plain.untyped_storage()
    return bool(
        parameter.nbytes > 0
        and parameter.is_contiguous()
        and storage.nbytes() == parameter.nbytes
        and users(storage._cdata) == users(usual._cdata)
    )
