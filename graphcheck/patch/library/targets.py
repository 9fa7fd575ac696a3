"""What a kernel library can be built for: this machine, arm64 Linux, an ExecuTorch tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from graphcheck.errors import UsageError
from graphcheck.files import cache_dir, check_cache
from graphcheck.runtime.libraries import RuntimeLibraries, find_libraries
from graphcheck.runtime.toolchain import (
    Compiler,
    compile_stub,
    find_compiler,
    find_cross_compiler,
    native_machine,
)

__all__ = ["Target", "find_target"]

_ARM = "aarch64-linux"


@dataclass(frozen=True)
class Target:
    """A runtime and the compiler for it; `runs_here` is whether this machine can load the result.

    `version` is that of the runtime as far as known.
    """

    name: str
    compiler: Compiler
    libraries: RuntimeLibraries
    version: str
    runs_here: bool


def find_target(name: str) -> Target:
    """The target `host`, `aarch64-linux`, or the folder of an ExecuTorch install or source tree.

    Raises UsageError for anything else, DeviceError where its compiler or runtime is missing.
    """
    if name == "host":
        libraries = find_libraries()
        return Target("host", find_compiler(), libraries, libraries.version, True)
    if name == _ARM:
        return _arm()
    folder = Path(name)
    if not folder.is_dir():
        raise UsageError(
            f"There is no target {name!r}: it is neither host, nor {_ARM}, nor a folder.",
            "Name the folder of an ExecuTorch source tree, install tree or package.",
        )
    return _tree(folder.resolve())


def _arm() -> Target:
    here = find_libraries()
    if native_machine() == "aarch64":
        return Target(_ARM, find_compiler(), here, here.version, True)
    compiler = find_cross_compiler("aarch64")
    # Headers are the same on every platform; of the library only the name is linked.
    libraries = _stubbed(compiler, here.package, here.include, here.version)
    return Target(_ARM, compiler, libraries, here.version, False)


def _tree(folder: Path) -> Target:
    """An install tree or package (`include/executorch`), or a source tree (`runtime/kernel`)."""
    compiler = find_compiler()
    if (folder / "include" / "executorch" / "runtime" / "kernel").is_dir():
        roots = [folder / "include"]
        inner = folder / "include" / "executorch"
    elif (folder / "runtime" / "kernel" / "operator_registry.h").is_file():
        roots = [_as_executorch(folder)]
        inner = folder
    else:
        raise UsageError(
            f"{folder} is no ExecuTorch tree: it has neither include/executorch/runtime nor "
            "runtime/kernel/operator_registry.h.",
            "Name the top folder of the tree, or the folder that `cmake --install` wrote to.",
        )
    c10 = inner / "runtime" / "core" / "portable_type" / "c10"
    if not c10.is_dir():
        raise UsageError(
            f"{folder} has no {c10.relative_to(folder)}, which kernels include.",
            "ExecuTorch 0.6 and newer have it; `git submodule update --init` may be due.",
        )
    version = _version_of(folder)
    libraries = _stubbed(compiler, folder, (*roots, c10), version)
    return Target(str(folder), compiler, libraries, version, False)


def _as_executorch(folder: Path) -> Path:
    """A folder in which the tree is called `executorch`, as its includes want it."""
    if folder.name == "executorch":
        return folder.parent
    root = cache_dir("trees", _digest([str(folder)]))
    link = root / "executorch"
    if not link.is_symlink():
        check_cache(root)
        link.unlink(missing_ok=True)
        link.symlink_to(folder, target_is_directory=True)
    return root


def _version_of(folder: Path) -> str:
    try:
        return (folder / "version.txt").read_text().strip() or "unknown"
    except OSError:
        return "unknown"


def _stubbed(
    compiler: Compiler, package: Path, include: Iterable[Path], version: str
) -> RuntimeLibraries:
    """The headers, with an empty library of the runtime's name to link against."""
    folder = cache_dir("stubs", _digest(compiler.command))
    stub = folder / "libexecutorch.so"
    if not stub.is_file():
        check_cache(folder)
        compile_stub(compiler, stub)
    return RuntimeLibraries(package, version, tuple(include), folder, (stub,))


def _digest(texts: Iterable[str]) -> str:
    import hashlib

    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
