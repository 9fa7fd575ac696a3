"""Building the drop-in kernel library for a runtime, with a manifest that tells what it holds."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graphcheck.counted import counted
from graphcheck.errors import UsageError
from graphcheck.files import write_atomic
from graphcheck.opset.library import MANIFEST_SCHEMA, list_kernels, manifest_of
from graphcheck.patch.library.sources import common_sources, kernel_sources
from graphcheck.patch.library.targets import Target, find_target
from graphcheck.resources import patches_dir
from graphcheck.runtime.toolchain import compile_library
from graphcheck.worker import progress

__all__ = ["LIBRARY_NAME", "BuiltLibrary", "build_library", "compile_kernels"]

LIBRARY_NAME = "libgraphcheck_kernels.so"
_FLAGS = ("-O3", "-fvisibility=hidden", "-DNDEBUG")
_FAST = "-DGRAPHCHECK_FAST_CONVOLUTION"


@dataclass(frozen=True)
class BuiltLibrary:
    """What a build gave.

    `registered` are registry names with the number of keys each kernel is registered under on the
    installed runtime (1 for a missing operator's kernel), `left_out` those that this runtime has
    right, with the reason.
    """

    library: Path
    manifest: Path
    target: str
    kernels: tuple[str, ...]
    registered: dict[str, int]
    left_out: dict[str, str]


def build_library(
    output: Path, *, ops: Sequence[str] = (), target: str = "host", fast: bool = False
) -> BuiltLibrary:
    """Build the library of the kernels `ops` (all by default) into the folder `output`.

    With `fast`, convolutions that the runtime computes right are replaced, too, for their speed;
    the order of their sums is then another. `target` is host (the installed wheel), aarch64-linux,
    or the folder of an ExecuTorch install or source tree. What the manifest tells of another target
    is what the same kernels register on this machine.

    Raises UsageError for an unknown kernel or target, or a folder that cannot be written;
    DeviceError if a compiler or the runtime is missing or it does not compile.
    """
    sources = kernel_sources(ops)
    found = find_target(target)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{output} cannot be made: {error.strerror}.", "Name another folder with -o."
        ) from error
    if not os.access(output, os.W_OK):
        raise UsageError(
            f"{output} cannot be written to: no permission.", "Name another folder with -o."
        )
    with tempfile.TemporaryDirectory(prefix=".graphcheck-", dir=output) as work:
        made = Path(work) / LIBRARY_NAME
        progress(f"compiling {counted(len(sources), 'kernel')} for {found.name}")
        extra = (_FAST,) if fast else ()
        compile_kernels(made, sources, found, extra)
        here = made
        if not found.runs_here:
            progress("compiling the same kernels for this machine, to list what they register")
            here = Path(work) / f"here-{LIBRARY_NAME}"
            compile_kernels(here, sources, find_target("host"), extra)
        listing = list_kernels(here)
        library = output / LIBRARY_NAME
        manifest = manifest_of(library)
        body = {
            "schema": MANIFEST_SCHEMA,
            "target": found.name,
            "runtime": found.version,
            "sha256": hashlib.sha256(made.read_bytes()).hexdigest(),
            "kernels": {name: sorted(keys) for name, keys in sorted(listing.kernels.items())},
            "sources": list(sources),
            "fast": fast,
        }
        os.replace(made, library)
        config = patches_dir() / "cmake" / "graphcheck_kernels-config.cmake"
        write_atomic(output / config.name, config.read_bytes())
        write_atomic(manifest, json.dumps(body, indent=2) + "\n")
    told = [line.split("\t", 1) for line in listing.report.splitlines()]
    return BuiltLibrary(
        library=library,
        manifest=manifest,
        target=found.name,
        kernels=tuple(sources),
        registered={name: len(keys) for name, keys in sorted(listing.kernels.items())},
        left_out={name: what for name, what in told if name not in listing.kernels},
    )


def compile_kernels(
    library: Path, sources: dict[str, Path], target: Target, extra: Sequence[str] = ()
) -> None:
    """Compile kernels and what they share into `library`. Raises DeviceError if that fails."""
    files = (*common_sources(), *sources.values())
    compile_library(target.compiler, files, library, target.libraries, (*_FLAGS, *extra))
