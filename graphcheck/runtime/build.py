"""Builds the native runner once and keeps it in the cache."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from graphcheck.errors import DeviceError
from graphcheck.files import cache_dir
from graphcheck.process import describe_exit, run_command
from graphcheck.runtime.libraries import RuntimeLibraries, build_id, find_libraries
from graphcheck.runtime.toolchain import Compiler, compile_program, find_compiler
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
    for text in (build_id(libraries), str(libraries.library_dir), compiler.version):
        digest.update(text.encode() + b"\0")
    for source in runner_sources():
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def build_runner(libraries: RuntimeLibraries | None = None) -> Path:
    """The runner for these libraries (the installed ones by default), built at the first call.

    Several processes may call at once: one builds, the others wait for it.

    Raises DeviceError if executorch or a C++ compiler is missing, or if it does not compile.
    """
    found = libraries or find_libraries()
    compiler = find_compiler()
    folder = cache_dir("runner", runner_key(compiler, found))
    runner = folder / "runner"
    if runner.is_file():
        return runner
    import filelock

    try:
        with filelock.FileLock(str(folder / ".lock"), timeout=_LOCK_SECONDS):
            if not runner.is_file():
                progress("building the native runner (once per ExecuTorch build, about 10 s)")
                _build(compiler, found, runner)
    except filelock.Timeout:
        raise DeviceError(
            f"another process has been building the native runner in {folder} for too long",
            f"End it and delete {folder}.",
        ) from None
    return runner


def _build(compiler: Compiler, libraries: RuntimeLibraries, runner: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".build.", dir=runner.parent) as work:
        target = Path(work) / "runner"
        sources = [source for source in runner_sources() if source.suffix == ".cpp"]
        compile_program(compiler, sources, target, libraries)
        # Without arguments it prints its usage: proof that it loads its libraries.
        result = run_command([str(target)], timeout=60.0)
        if result.code != _USAGE_CODE:
            raise DeviceError(
                f"the native runner {describe_exit(result.code)} at its first start: "
                f"{result.output.strip()[-500:]}",
                "Is the executorch wheel damaged? Reinstall it.",
            )
        os.replace(target, runner)
