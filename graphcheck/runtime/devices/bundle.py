"""What a board needs once: the native runner and the libraries it is linked to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.opset.library import elf_machine
from graphcheck.runtime.build import build_runner
from graphcheck.runtime.libraries import RuntimeLibraries, find_libraries
from graphcheck.runtime.platforms import libraries_for

__all__ = ["Bundle", "bundle_for", "core_mask", "file_digest", "given_bundle"]


@dataclass(frozen=True)
class Bundle:
    """The runner and the libraries it needs: name on the board and file here. Sent once."""

    files: Mapping[str, Path]
    version: str

    def digests(self) -> dict[str, str]:
        """Name by name the SHA-256 of the file."""
        return {name: file_digest(path) for name, path in self.files.items()}


def bundle_for(machine: str) -> Bundle:
    """Runner and runtime of the installed version. Raises DeviceError if they cannot be had."""
    libraries: RuntimeLibraries = libraries_for(machine)
    runner = build_runner(libraries, machine)
    shared = [path for path in libraries.shared if "quantized" not in path.name]
    return Bundle({"runner": runner, **{p.name: p for p in shared}}, libraries.version)


def given_bundle(runner: Path) -> Bundle:
    """A runner that the user built. Raises UsageError if it is no program."""
    if not runner.is_file():
        raise UsageError(
            f"--runner {runner}: there is no such file.", "graphcheck device build makes one."
        )
    if not elf_machine(runner):
        raise UsageError(
            f"--runner {runner} is no program (no ELF file).", "graphcheck device build makes one."
        )
    return Bundle({"runner": runner}, find_libraries().version)


def core_mask(cores: str) -> int:
    """The mask of `4-7` or `0,2`. Raises UsageError for what is neither."""
    mask = 0
    for part in cores.split(","):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit() and int(last or first) < 1024):
            raise UsageError(f"--cores {cores}: these are no cores.", "For instance --cores 4-7.")
        for core in range(int(first), int(last or first) + 1):
            mask |= 1 << core
    return mask


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
