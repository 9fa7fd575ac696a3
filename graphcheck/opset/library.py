"""What a kernel library registers: it is loaded in a child process, and the registry compared.

A library for another architecture cannot be loaded here; the manifest that `graphcheck patch
build` writes beside it tells the same.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from graphcheck.errors import DeviceError, UsageError
from graphcheck.opset.types import KernelLibrary
from graphcheck.process import WorkerFailure, run_worker

__all__ = ["MANIFEST_SCHEMA", "elf_machine", "list_kernels", "manifest_of", "read_library"]

MANIFEST_SCHEMA = 1
_TIMEOUT = 120.0
# executorch::runtime::get_registered_kernels(), which returns a span of kernels.
_KERNELS = "_ZN10executorch7runtime22get_registered_kernelsEv"
_ELF_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


class _Listing(msgspec.Struct, frozen=True):
    kernels: dict[str, list[str]]
    known: bool
    report: str


class _Manifest(msgspec.Struct, frozen=True):
    schema: int
    sha256: str
    kernels: dict[str, list[str]]


def manifest_of(library: Path) -> Path:
    """Where the manifest of a library is: `libx.json` beside `libx.so`."""
    return library.with_suffix(".json")


def read_library(path: Path) -> KernelLibrary:
    """What the library registers in the installed runtime.

    Raises UsageError for a file that is no library, is for another architecture and has no
    manifest, cannot be loaded, or registers nothing; DeviceError without a runtime to load it in.
    """
    try:
        head = path.read_bytes()[:64]
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.",
            "Name the .so file that `graphcheck patch build` wrote, or that of your own kernels.",
        ) from error
    machine = _machine(head)
    if machine is None:
        raise UsageError(
            f"{path} is no shared library (no ELF file).",
            "`graphcheck patch build` makes one; name its .so file.",
        )
    here = _ALIASES.get(platform.machine().lower(), platform.machine().lower())
    if machine != here:
        return _from_manifest(path, machine, here)
    listing = list_kernels(path)
    # A library of ours that is not needed here is no mistake: everything is right without it.
    if not listing.kernels and not listing.known:
        why = _left_out(listing.report)
        raise UsageError(
            f"{path} registers no kernel in the installed runtime{why}.",
            "Name the shared library whose code calls the registration of ExecuTorch.",
        )
    return _library(path, listing.kernels, known=listing.known)


def list_kernels(path: Path) -> _Listing:
    """Names of kernels with their keys ("" for all arguments), as loading the library adds them.

    `known` is whether graphcheck built it, `report` its own account. Raises UsageError when it
    cannot be loaded.
    """
    try:
        return run_worker(
            f"{__name__}:list_task", {"library": str(path)}, _Listing, timeout=_TIMEOUT
        )
    except WorkerFailure as failure:
        lines = [line.strip() for line in failure.output.splitlines() if line.strip()]
        told = f" It said: {lines[-1]}" if lines else ""
        raise UsageError(
            f"{path} ended the process that loaded it: it {failure.detail}.{told}",
            "A kernel may be registered once only for the same dtypes and dim orders.",
        ) from failure


def list_task(request: Mapping[str, Any]) -> dict[str, Any]:
    """Worker task of `list_kernels`. Torch is not needed for it."""
    from graphcheck.runtime.libraries import find_libraries

    libraries = find_libraries()
    for shared in libraries.shared[:2]:
        runtime = ctypes.CDLL(str(shared), mode=ctypes.RTLD_GLOBAL)
        if shared == libraries.shared[0]:
            first = runtime
    before = set(_registry(first))
    try:
        library = ctypes.CDLL(request["library"], mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise UsageError(
            f"The kernel library {request['library']} cannot be loaded: {error}.",
            "Was it built against this executorch? `graphcheck patch build` does that.",
        ) from error
    kernels: dict[str, list[str]] = {}
    for name, key in _registry(first):
        if (name, key) not in before:
            kernels.setdefault(name, []).append(key)
    known, report = True, ""
    try:
        tell = library.graphcheck_kernels_report
    except AttributeError:
        known = False
    else:
        tell.restype = ctypes.c_char_p
        report = (tell() or b"").decode(errors="replace")
    return {"kernels": kernels, "known": known, "report": report}


class _Span(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _Kernel(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("key", ctypes.c_char_p), ("op", ctypes.c_void_p))


def _registry(runtime: ctypes.CDLL) -> Iterator[tuple[str, str]]:
    try:
        function = runtime[_KERNELS]
    except AttributeError:
        raise DeviceError(
            "The installed executorch does not tell what is in its kernel registry.",
            "executorch 1.5 does: pip install 'executorch>=1.5.1,<1.6'",
        ) from None
    function.restype = _Span
    span = function()
    if not span.data:
        return
    for kernel in (_Kernel * span.size).from_address(span.data):
        yield kernel.name.decode(), (kernel.key or b"").decode()


def elf_machine(path: Path) -> str:
    """The architecture of an ELF file as `uname -m` says it; "" for another file.

    Raises OSError if it cannot be read.
    """
    with path.open("rb") as stream:
        return _machine(stream.read(64)) or ""


def _machine(head: bytes) -> str | None:
    """The architecture of an ELF file, None for another file."""
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return None
    order = "<" if head[5] == 1 else ">"
    (number,) = struct.unpack_from(f"{order}H", head, 18)
    return _ELF_MACHINES.get(number, f"machine {number}")


def _from_manifest(path: Path, machine: str, here: str) -> KernelLibrary:
    file = manifest_of(path)
    foreign = f"{path} is for {machine}, this machine is {here}"
    try:
        manifest = msgspec.json.decode(file.read_bytes(), type=_Manifest)
    except OSError as error:
        raise UsageError(
            f"{foreign}, and there is no manifest {file.name} beside it that tells what it holds.",
            "`graphcheck patch build` writes both; keep them together.",
        ) from error
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{foreign}, and its manifest {file} is broken: {error}.",
            "Build the library again: `graphcheck patch build`.",
        ) from error
    if manifest.sha256 != hashlib.sha256(path.read_bytes()).hexdigest():
        raise UsageError(
            f"{foreign}, and its manifest {file} is that of another file.",
            "Build the library again: `graphcheck patch build`.",
        )
    return _library(path, manifest.kernels, known=True)


def _library(path: Path, kernels: Mapping[str, list[str]], *, known: bool) -> KernelLibrary:
    return KernelLibrary(
        name=path.name,
        path=str(path),
        kernels={name: frozenset(keys) for name, keys in sorted(kernels.items())},
        known=known,
    )


def _left_out(report: str) -> str:
    lines = [line.partition("\t") for line in report.splitlines()]
    told = "; ".join(f"{name} {what}" for name, _, what in lines)
    return f" ({told})" if told else ""
