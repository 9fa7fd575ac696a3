"""Kernel libraries for the device at hand: those of its architecture, ours built for it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from graphcheck.errors import DeviceError
from graphcheck.files import cache_dir, check_cache
from graphcheck.opset.library import elf_machine, manifest_of
from graphcheck.runtime.toolchain import native_machine

__all__ = ["libraries_on"]

_TARGETS = {"aarch64": "aarch64-linux"}


def libraries_on(machine: str, libraries: tuple[Path, ...]) -> tuple[Path, ...]:
    """Those of the libraries that are for `machine`.

    One of ours (`graphcheck patch build`) that is for another machine is built for this one, from
    the same kernels, unless another of the libraries stands for it. Raises DeviceError if a
    library cannot be had for the machine.
    """
    own = [path for path in libraries if elf_machine(path) == machine]
    if own or not libraries:
        return tuple(own)
    return tuple(_built(path, machine) for path in libraries)


def _built(path: Path, machine: str) -> Path:
    manifest = _manifest(path)
    target = "host" if machine == native_machine() else _TARGETS.get(machine, "")
    if manifest is None or not target:
        raise DeviceError(
            f"the kernel library {path} is for {elf_machine(path)}, the device is {machine}",
            f"give one that is built for {machine}, too: --kernel-library may be repeated",
        )
    from graphcheck.patch.library.build import build_library

    sources, fast = tuple(manifest["sources"]), bool(manifest.get("fast"))
    name = hashlib.sha256(f"{manifest['sha256']} {machine}".encode()).hexdigest()[:16]
    folder = cache_dir("kernels", name)
    library = folder / path.name
    if not library.is_file():
        check_cache(folder)
        built = build_library(folder, ops=sources, target=target, fast=fast)
        library = built.library
    return library


def _manifest(path: Path) -> dict[str, Any] | None:
    """The manifest of a library of ours; None for another's, or one that is not its own."""
    try:
        manifest = json.loads(manifest_of(path).read_bytes())
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return manifest if manifest["sha256"] == digest and manifest["sources"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
