"""The C++ compiler of this machine, and how to compile against ExecuTorch."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from graphcheck.errors import DeviceError
from graphcheck.process import describe_exit, run_command
from graphcheck.runtime.libraries import RuntimeLibraries

__all__ = [
    "Compiler",
    "compile_flags",
    "compile_library",
    "compile_program",
    "compile_stub",
    "find_compiler",
    "find_cross_compiler",
    "native_machine",
]

_CANDIDATES = ("c++", "g++", "clang++")
_ARM_COMPILERS = ("aarch64-linux-gnu-g++", "aarch64-linux-gnu-g++-12", "aarch64-none-linux-gnu-g++")
_HINT = (
    "Install one, for instance: apt install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), "
    "conda install gxx; or set CXX."
)
_VERSION_SECONDS = 30.0
_COMPILE_SECONDS = 600.0


@dataclass(frozen=True)
class Compiler:
    """A compiler: `command` starts it (with a wrapper like ccache), `version` is its first line."""

    command: tuple[str, ...]
    version: str


def find_compiler(candidates: Sequence[str] = (), what: str = "") -> Compiler:
    """`$CXX`, else the first of c++, g++ and clang++ that works.

    With `candidates`, the first of them that works, a cross compiler for `what`. Raises
    DeviceError with what to install if there is none.
    """
    for name in candidates:
        compiler = _try_compiler(tuple(shlex.split(name)))
        if compiler is not None:
            return compiler
    if candidates:
        raise DeviceError(
            f"no C++ compiler for {what} found (looked for {', '.join(candidates)})",
            "Install one, for instance: apt install g++-aarch64-linux-gnu; or set AARCH64_CXX.",
        )
    chosen = os.environ.get("CXX", "").strip()
    if chosen:
        compiler = _try_compiler(tuple(shlex.split(chosen)))
        if compiler is None:
            raise DeviceError(f"the C++ compiler CXX={chosen} cannot be run", _HINT)
        return compiler
    for name in _CANDIDATES:
        compiler = _try_compiler((name,))
        if compiler is not None:
            return compiler
    raise DeviceError(f"no C++ compiler found (looked for {', '.join(_CANDIDATES)})", _HINT)


def find_cross_compiler(machine: str) -> Compiler:
    """The compiler for Linux on `machine` (x86_64, aarch64), which may be this machine's own.

    `$AARCH64_CXX` goes before what is looked for. Raises DeviceError if there is none.
    """
    if machine == native_machine():
        return find_compiler()
    if machine != "aarch64":
        raise DeviceError(
            f"nothing can be built here for {machine}",
            "Runners for x86-64 and arm64 Linux are built on x86-64; for arm64 on arm64, too.",
        )
    chosen = os.environ.get("AARCH64_CXX", "")
    return find_compiler((chosen,) if chosen else _ARM_COMPILERS, what="arm64 Linux")


def native_machine() -> str:
    """The architecture of this machine as `uname -m` says it on Linux: x86_64, aarch64."""
    here = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(here, here)


def _try_compiler(command: tuple[str, ...]) -> Compiler | None:
    path = shutil.which(command[0])
    if path is None:
        return None
    command = (path, *command[1:])
    try:
        result = run_command([*command, "--version"], timeout=_VERSION_SECONDS)
    except OSError:
        return None
    if result.code != 0 or not result.output.strip():
        return None
    return Compiler(command, result.output.strip().splitlines()[0])


def compile_flags(libraries: RuntimeLibraries) -> list[str]:
    """Flags to compile a C++ file against ExecuTorch's headers."""
    # The second include and the macro are what the wheel's own CMake package asks for.
    includes = [f"-I{folder}" for folder in libraries.include]
    return ["-std=c++17", "-O1", "-fPIC", *includes, "-DC10_USING_CUSTOM_GENERATED_MACROS"]


def compile_program(
    compiler: Compiler,
    sources: Sequence[Path],
    output: Path,
    libraries: RuntimeLibraries,
    extra: Sequence[str] = (),
    link: Sequence[str] = (),
) -> None:
    """Compile and link a program that runs with the runtime and the kernels of the wheel.

    The sources are compiled side by side, with their objects beside `output`; `extra` are flags
    for them, `link` those for linking.

    Raises DeviceError with the compiler's first error.
    """
    # Kernels register when their library is loaded; nothing refers to them by name.
    needed = ["-Wl,--no-as-needed", "-lexecutorch", "-lexecutorch_kernels_optimized", "-ldl"]
    _compile(compiler, sources, output, libraries, extra, [*link, *needed])


def compile_library(
    compiler: Compiler,
    sources: Sequence[Path],
    output: Path,
    libraries: RuntimeLibraries,
    extra: Sequence[str] = (),
) -> None:
    """Compile a kernel library: loaded into a process, it registers in the runtime there.

    The runtime's thread pool is linked where it is beside the runtime. Raises DeviceError with
    the compiler's first error.
    """
    link = ["-shared", "-lexecutorch"]
    if (libraries.library_dir / "libexecutorch_threadpool.so").is_file():
        link += ["-Wl,--no-as-needed", "-lexecutorch_threadpool"]
    _compile(compiler, sources, output, libraries, extra, link)


def compile_stub(compiler: Compiler, output: Path) -> None:
    """An empty shared library of that file name: to link by name against one that is elsewhere.

    Raises DeviceError with the compiler's first error.
    """
    arguments = ["-shared", "-nostdlib", "-x", "c++", os.devnull]
    soname = f"-Wl,-soname,{output.name}"
    _run(compiler, [*arguments, soname, "-o", str(output)], output.name)


def _compile(
    compiler: Compiler,
    sources: Sequence[Path],
    output: Path,
    libraries: RuntimeLibraries,
    extra: Sequence[str],
    link: Sequence[str],
) -> None:
    # Sources of several folders may share a name.
    objects = [
        output.with_name(f"{output.stem}.{index}.{source.stem}.o")
        for index, source in enumerate(sources)
    ]

    def compile_one(source: Path, target: Path) -> None:
        arguments = [*compile_flags(libraries), *extra, "-c", str(source), "-o", str(target)]
        _run(compiler, arguments, source.name)

    with ThreadPoolExecutor(max_workers=min(len(objects), os.cpu_count() or 1)) as pool:
        for done in [
            pool.submit(compile_one, *pair) for pair in zip(sources, objects, strict=True)
        ]:
            done.result()
    folder = libraries.library_dir
    places = [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    _run(compiler, [*map(str, objects), "-o", str(output), *places, *link], output.name)


def _run(compiler: Compiler, arguments: list[str], what: str) -> None:
    result = run_command([*compiler.command, *arguments], timeout=_COMPILE_SECONDS)
    if result.code == 0:
        return
    lines = [line.strip() for line in result.output.splitlines() if line.strip()]
    reason = next((line for line in lines if "error" in line), lines[-1] if lines else "")
    raise DeviceError(
        f"{compiler.command[0]} {describe_exit(result.code)} on {what}: {reason}",
        f"A compiler for C++17 is needed; this is {compiler.version}.",
    )
