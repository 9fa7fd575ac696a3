"""The installed ExecuTorch: where its headers and libraries are, and which build they are of.

Nothing here imports executorch, which would take seconds and torch with it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from graphcheck.errors import DeviceError

__all__ = ["RuntimeLibraries", "build_id", "find_libraries", "find_package"]

_SHARED = (
    "libexecutorch.so",
    "libexecutorch_kernels_optimized.so",
    "libexecutorch_threadpool.so",
    "libexecutorch_kernels_quantized.so",
)
_NEEDED = _SHARED[:2]
_NOTE_SECTION, _NOTE_SEGMENT, _GNU_BUILD_ID = 7, 4, 3
_HEAD = 1 << 16


@dataclass(frozen=True)
class RuntimeLibraries:
    """An ExecuTorch to compile and link against: `shared` are its libraries, the runtime first.

    `version` is that of the wheel, "unknown" without its metadata.
    """

    package: Path
    version: str
    include: tuple[Path, ...]
    library_dir: Path
    shared: tuple[Path, ...]


def find_package() -> Path | None:
    """The folder of the installed executorch package, None if there is none."""
    try:
        spec = importlib.util.find_spec("executorch")
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ())
    return Path(places[0]) if places else None


def find_libraries(package: Path | None = None) -> RuntimeLibraries:
    """The libraries and headers of `package`, of the installed wheel by default.

    Raises DeviceError if executorch, its libraries or its headers are not there.
    """
    folder = package or find_package()
    if folder is None:
        raise DeviceError("executorch is not installed", "pip install 'executorch>=1.5.1,<1.6'")
    library_dir = folder / "lib"
    shared = tuple(library_dir / name for name in _SHARED if (library_dir / name).is_file())
    missing = [name for name in _NEEDED if not (library_dir / name).is_file()]
    if missing:
        raise DeviceError(
            f"executorch in {folder} has no lib/{missing[0]}",
            "Install a wheel that carries the C++ libraries: pip install 'executorch>=1.5.1,<1.6'",
        )
    include = folder / "include"
    c10 = include / "executorch" / "runtime" / "core" / "portable_type" / "c10"
    if not (include / "executorch" / "runtime" / "executor" / "method.h").is_file():
        raise DeviceError(
            f"executorch in {folder} has no C++ headers",
            "Install a wheel that carries them: pip install 'executorch>=1.5.1,<1.6'",
        )
    return RuntimeLibraries(folder, _version(folder), (include, c10), library_dir, shared)


def _version(folder: Path) -> str:
    for distribution in importlib.metadata.distributions(path=[str(folder.parent)]):
        if distribution.metadata["Name"] == "executorch":
            return distribution.version
    return "unknown"


def build_id(libraries: RuntimeLibraries | None = None) -> str:
    """Which build the runtime libraries are of: 16 hex digits, the same for the same files.

    Made from the build-id notes of the ELF files; for a file without one from its size, time and
    first 64 KiB.
    """
    found = libraries or find_libraries()
    facts = tuple(_stat(path) for path in found.shared)
    return _build_id(found.shared, facts)


def _stat(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=16)
def _build_id(shared: tuple[Path, ...], facts: tuple[tuple[int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, (size, modified) in zip(shared, facts, strict=True):
        digest.update(path.name.encode())
        note = _elf_build_id(path)
        if note:
            digest.update(note)
        else:
            with path.open("rb") as stream:
                digest.update(f"{size} {modified}".encode() + stream.read(_HEAD))
    return digest.hexdigest()[:16]


def _elf_build_id(path: Path) -> bytes:
    """The GNU build id of a 64-bit little-endian ELF file, b"" if it has none."""
    try:
        with (
            path.open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            if data[:6] != b"\x7fELF\x02\x01":
                return b""
            for start, size in _notes(data):
                for kind, name, content in _note_entries(data[start : start + size]):
                    if kind == _GNU_BUILD_ID and name == b"GNU\0":
                        return content
    except (OSError, ValueError, struct.error):
        return b""
    return b""


def _notes(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Offset and size of the parts of an ELF file that hold notes."""
    (program_headers,) = struct.unpack_from("<Q", data, 32)
    entry_size, entries = struct.unpack_from("<HH", data, 54)
    for index in range(entries):
        at = program_headers + index * entry_size
        (kind,) = struct.unpack_from("<I", data, at)
        if kind == _NOTE_SEGMENT:
            (offset,) = struct.unpack_from("<Q", data, at + 8)
            (size,) = struct.unpack_from("<Q", data, at + 32)
            yield offset, size
    (section_headers,) = struct.unpack_from("<Q", data, 40)
    entry_size, entries = struct.unpack_from("<HH", data, 58)
    for index in range(entries):
        at = section_headers + index * entry_size
        (kind,) = struct.unpack_from("<I", data, at + 4)
        if kind == _NOTE_SECTION:
            yield struct.unpack_from("<QQ", data, at + 24)


def _note_entries(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    at = 0
    while at + 12 <= len(data):
        name_size, content_size, kind = struct.unpack_from("<III", data, at)
        name = at + 12
        content = name + (name_size + 3) // 4 * 4
        yield kind, data[name : name + name_size], data[content : content + content_size]
        at = content + (content_size + 3) // 4 * 4
