"""Builds the native runner once and keeps it in the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from graphcheck.errors import DeviceError
from graphcheck.files import cache_dir, check_cache
from graphcheck.process import describe_exit, run_command
from graphcheck.runtime.libraries import RuntimeLibraries, build_id, find_libraries
from graphcheck.runtime.toolchain import (
    Compiler,
    compile_program,
    find_cross_compiler,
    native_machine,
)
from graphcheck.worker import progress

__all__ = ["build_runner", "runner_key", "runner_sources"]

_NATIVE = Path(__file__).resolve().parent / "native"
_LOCK_SECONDS = 900.0
_USAGE_CODE = 2


def runner_sources() -> tuple[Path, ...]:
    """The C++ files and headers of the runner, sorted."""
    return tuple(sorted(p for p in _NATIVE.iterdir() if p.suffix in (".cpp", ".h")))


def runner_key(compiler: Compiler, libraries: RuntimeLibraries) -> str:
    """Names a build: runtime libraries and their place, compiler, and the runner's source."""
    digest = hashlib.sha256()
    for text in (build_id(libraries), str(libraries.library_dir), compiler.version, *_flags()):
        digest.update(text.encode() + b"\0")
    for source in runner_sources():
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def build_runner(
    libraries: RuntimeLibraries | None = None,
    machine: str = "",
    emulator: Sequence[str] = (),
) -> Path:
    """The runner for these libraries (the installed ones by default), built at the first call.

    `machine` is what the libraries are for, this machine by default; for another one `emulator`
    starts programs of it, and without an emulator the runner is not tried here. Several processes
    may call at once: one builds, the others wait for it.

    Raises DeviceError if executorch or a C++ compiler is missing, if it does not compile, or if
    the cache cannot be written.
    """
    found = libraries or find_libraries()
    here = native_machine()
    compiler = find_cross_compiler(machine or here)
    folder = cache_dir("runner", runner_key(compiler, found))
    runner = folder / "runner"
    if runner.is_file():
        return runner
    check_cache(folder)
    import filelock

    foreign = machine not in ("", here)
    what = f"the native runner for {machine}" if foreign else "the native runner"
    try:
        with filelock.FileLock(str(folder / ".lock"), timeout=_LOCK_SECONDS):
            if not runner.is_file():
                # Of a build that was killed.
                for left in folder.glob(".build.*"):
                    shutil.rmtree(left, ignore_errors=True)
                progress(f"building {what} (once per ExecuTorch build, about 10 s)")
                _build(compiler, found, runner, emulator, foreign=foreign)
    except filelock.Timeout:
        raise DeviceError(
            f"another process has been building {what} in {folder} for too long",
            f"End it and delete {folder}.",
        ) from None
    return runner


def _flags(version: str = "") -> list[str]:
    # Contracted multiply-adds would make the optimizer round as the architecture likes.
    return ["-ffp-contract=off", f'-DGRAPHCHECK_EXECUTORCH_VERSION="{version}"']


def _build(
    compiler: Compiler,
    libraries: RuntimeLibraries,
    runner: Path,
    emulator: Sequence[str],
    *,
    foreign: bool,
) -> None:
    with tempfile.TemporaryDirectory(prefix=".build.", dir=runner.parent) as work:
        target = Path(work) / "runner"
        sources = [source for source in runner_sources() if source.suffix == ".cpp"]
        # Libraries of another system may need what the cross compiler's own do not have.
        extra = _flags(libraries.version)
        link = ("-Wl,--allow-shlib-undefined",) if foreign else ()
        compile_program(compiler, sources, target, libraries, extra, link)
        if emulator or not foreign:
            _try(target, emulator)
        os.replace(target, runner)


def _try(target: Path, emulator: Sequence[str]) -> None:
    """Without arguments it prints its usage: proof that it loads its libraries."""
    result = run_command([*emulator, str(target)], timeout=60.0)
    if result.code != _USAGE_CODE:
        raise DeviceError(
            f"the native runner {describe_exit(result.code)} at its first start: "
            f"{result.output.strip()[-500:]}",
            "Is the executorch wheel damaged? Reinstall it.",
        )
