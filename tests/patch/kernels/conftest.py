"""The kernel library, built once for all tests of this folder: as users build it, and sanitized."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import filelock
import pytest
import torch
from calling import CALLER, Done, Kernels

from graphcheck.errors import DeviceError
from graphcheck.patch.library.build import build_library, compile_kernels
from graphcheck.patch.library.sources import kernel_sources
from graphcheck.patch.library.targets import Target, find_target
from graphcheck.process import run_command
from graphcheck.resources import patches_dir
from graphcheck.runtime.libraries import build_id
from graphcheck.runtime.toolchain import compile_library

# An overflow or a bad shift ends the process. The runtime itself has no type information for vptr.
_SANITIZE = (
    "-O1",
    "-g1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fsanitize=address,undefined",
    "-fno-sanitize=vptr",
    "-fno-sanitize-recover=undefined",
)
_CONVOLUTIONS = ("convolution", "convolution_backward")

TOLERANCE = {
    torch.float32: 4e-6,
    torch.float64: 1e-13,
    torch.float16: 2.0**-10,
    torch.bfloat16: 2.0**-7,
}
"""A few roundings of a result, relative to the largest entry."""


@pytest.fixture(scope="session")
def host() -> Target:
    """The installed runtime and a compiler; skips where one is missing."""
    try:
        return find_target("host")
    except DeviceError as error:
        pytest.skip(f"{error.message}. {error.hint}")


@pytest.fixture(scope="session")
def built(host: Target, request: pytest.FixtureRequest) -> Path:
    """A folder of builds, kept for as long as sources and runtime stay the same."""
    digest = hashlib.sha256(build_id().encode())
    for file in [
        *sorted(patches_dir().rglob("*.cpp")),
        *sorted(patches_dir().rglob("*.h")),
        CALLER,
    ]:
        digest.update(file.read_bytes())
    folder = Path(request.config.cache.mkdir(f"graphcheck-kernels-{digest.hexdigest()[:16]}"))
    return folder


def _once(folder: Path, name: str, make: Callable[[Path], None]) -> Path:
    """The file `name`, made by the first process that needs it."""
    target = folder / name
    with filelock.FileLock(str(folder / f".{name}.lock")):
        if not target.is_file():
            target.parent.mkdir(exist_ok=True)
            make(target)
    return target


@pytest.fixture(scope="session")
def library(built: Path) -> Path:
    """The library as `graphcheck patch build` makes it, all kernels."""
    return _once(built, "libgraphcheck_kernels.so", lambda _: build_library(built) and None)


@pytest.fixture(scope="session")
def caller(host: Target, built: Path) -> Path:
    """What calls kernels by name."""

    def make(target: Path) -> None:
        flags = ["-O2", "-Wall", "-Wextra", "-Werror"]
        compile_library(host.compiler, [CALLER], target, host.libraries, flags)

    return _once(built, "caller.so", make)


class Agreement:
    """Kernels in several builds, each compared with what is right."""

    def __init__(self, kernels: Sequence[Kernels]) -> None:
        self.kernels = kernels

    def check(
        self,
        op: str,
        inputs: Sequence[Any],
        outputs: Sequence[torch.Tensor],
        expected: Sequence[torch.Tensor | None],
        scale: float = 1.0,
    ) -> None:
        """Every output is within a few roundings (times `scale`) of the expected; None: any."""
        for kernels in self.kernels:
            done = kernels.call(op, inputs, outputs)
            assert done.code == 0, f"{op}: error {done.code:#x}\n{kernels.said()[-500:]}"
            for output, truth in zip(done.outputs, expected, strict=True):
                if truth is not None and truth.numel():
                    _compare(op, output, truth, scale)

    def refuse(self, op: str, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> str:
        """The call ends with InvalidArgument; what the log says of it."""
        for kernels in self.kernels:
            done = kernels.call(op, inputs, outputs)
            assert done.code == 0x12, (op, done.code)
        return self.kernels[0].said().strip().splitlines()[-1]

    def call(self, *arguments: Any, **options: Any) -> Done:
        """A call on the first build alone."""
        return self.kernels[0].call(*arguments, **options)


def _compare(op: str, output: torch.Tensor, truth: torch.Tensor, scale: float) -> None:
    if not output.is_floating_point():
        assert torch.equal(output, truth), op
        return
    largest = truth.double().abs().nan_to_num(0, 0, 0).max().clamp_min(1e-30)
    same = output.double() == truth.double()
    same |= output.isnan() & truth.isnan()
    error = ((output.double() - truth.double()).abs() / largest).masked_fill(same, 0).max()
    limit = TOLERANCE[output.dtype] * scale
    assert float(error) <= limit, f"{op}: error {float(error):.3g}, tolerance {limit:.3g}"


def _sanitizers(host: Target) -> str:
    """The sanitizers' own libraries, to be loaded first."""
    found = []
    for name in ("libasan.so", "libubsan.so"):
        answer = run_command(
            [*host.compiler.command, f"-print-file-name={name}"], timeout=30
        ).output.strip()
        if not Path(answer).is_absolute():
            pytest.skip(f"the compiler has no {name}")
        found.append(answer)
    return " ".join(found)


@pytest.fixture(scope="session")
def sanitized(host: Target, built: Path, caller: Path) -> Kernels:
    """All kernels with AddressSanitizer and UndefinedBehaviorSanitizer, in a child of their own."""

    def make(target: Path) -> None:
        compile_kernels(target, kernel_sources(), host, _SANITIZE)

    library = _once(built, "sanitized.so", make)
    return Kernels(
        caller,
        [library],
        env={
            "LD_PRELOAD": _sanitizers(host),
            # Blocks of Python's own allocator have no guards between them.
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0",
        },
    )


@pytest.fixture(scope="session")
def plain(caller: Path, library: Path) -> Kernels:
    """The kernels as users have them, in a child."""
    return Kernels(caller, [library])


@pytest.fixture(scope="session")
def agreement(plain: Kernels, sanitized: Kernels) -> Agreement:
    """Both builds, the sanitized one second: what it finds ends it, and the test says so."""
    return Agreement([plain, sanitized])


@pytest.fixture(scope="session")
def fast_library(host: Target, built: Path) -> Path:
    """Convolutions of a library built with --fast, sanitized."""

    def make(target: Path) -> None:
        flags = (*_SANITIZE, "-DGRAPHCHECK_FAST_CONVOLUTION")
        compile_kernels(target, kernel_sources(_CONVOLUTIONS), host, flags)

    return _once(built, "fast_sanitized.so", make)


@pytest.fixture(scope="session")
def fast(host: Target, caller: Path, fast_library: Path) -> Agreement:
    """Fast convolutions on the threads of the runtime's pool, if it is loaded."""
    env = {
        "LD_PRELOAD": _sanitizers(host),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    return Agreement([Kernels(caller, [fast_library], env=env)])


@pytest.fixture(scope="session")
def threaded(host: Target, built: Path, caller: Path, fast_library: Path) -> Agreement:
    """Fast convolutions on five threads."""

    def make(target: Path) -> None:
        source = Path(__file__).parent / "threads.cpp"
        compile_library(host.compiler, [source], target, host.libraries, ["-O1", "-pthread"])

    threads = _once(built, "threads.so", make)
    env = {
        "LD_PRELOAD": f"{_sanitizers(host)} {threads}",
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    return Agreement([Kernels(caller, [fast_library], env=env)])
