"""Programs of the runtime tests, lowered once, and how to ask for a run."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock
import numpy
import pytest

from graphcheck.errors import DeviceError
from graphcheck.runtime.build import build_runner
from graphcheck.runtime.libraries import find_libraries
from graphcheck.runtime.toolchain import compile_library, find_compiler
from graphcheck.runtime.types import ArrayInput, TrainRequest

HERE = Path(__file__).parent
NAMES = (
    "seed_cnn",
    "healthy",
    "dropout_pool",
    "counter_buffer",
    "avg_pool",
    "pad_between",
    "mlp_f64",
    "mlp_f16",
    "mlp_bf16",
    "wrong_metadata",
    "metadata_beyond",
    "dynamic",
)


@dataclass(frozen=True)
class Case:
    """A lowered model: its file, its example inputs, and what eager gave on them."""

    path: Path
    inputs: tuple[ArrayInput, ...]
    facts: dict[str, Any] = field(repr=False)

    @property
    def losses(self):
        return self.facts["losses"]

    def eager(self, kind, step):
        """Gradients or parameters of eager by name, before the update of that step."""
        prefix = f"{kind}/{step}/"
        return {
            key.removeprefix(prefix): value
            for key, value in self.facts.items()
            if key.startswith(prefix)
        }

    def request(self, **options):
        return TrainRequest(self.path, (self.inputs,), **{"steps": 6, "timeout": 120.0, **options})


def _shared(tmp_path_factory, name):
    """A folder that all workers of this test session share."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / name
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def programs(request):
    """All cases by name, lowered in one child process; kept in pytest's cache."""
    source = HERE / "build_programs.py"
    versions = [importlib.metadata.version(name) for name in ("torch", "executorch")]
    key = hashlib.sha256(source.read_bytes() + repr(versions).encode()).hexdigest()[:16]
    folder = request.config.cache.mkdir(f"graphcheck-programs-{key}")
    with filelock.FileLock(str(folder / ".lock")):
        missing = [name for name in NAMES if not (folder / f"{name}.npz").is_file()]
        if missing:
            done = subprocess.run(
                [sys.executable, str(source), str(folder), *missing],
                capture_output=True,
                text=True,
                timeout=1800,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            assert done.returncode == 0, done.stdout + done.stderr
    return {name: _case(folder, name) for name in NAMES}


def _case(folder, name):
    with numpy.load(folder / f"{name}.npz") as file:
        facts = dict(file)
    keys = sorted(key for key in facts if key.startswith("input/"))
    inputs = tuple(
        ArrayInput(key.split("/")[2], facts[key].shape, facts[key].tobytes()) for key in keys
    )
    return Case(folder / f"{name}.pte", inputs, facts)


@pytest.fixture(scope="session")
def compiler():
    """The C++ compiler; skips where there is none."""
    try:
        find_libraries()
        return find_compiler()
    except DeviceError as error:
        pytest.skip(f"{error.message}. {error.hint}")


@pytest.fixture(scope="session")
def runner(compiler):
    """The built runner."""
    return build_runner()


@pytest.fixture(scope="session")
def kernel_library(compiler, tmp_path_factory):
    """Builds `kernels/NAME.cpp` as a kernel library, with a mode for its macro."""

    def build(name, mode=0):
        folder = _shared(tmp_path_factory, "kernels")
        output = folder / f"{name}_{mode}.so"
        with filelock.FileLock(str(folder / f".{output.name}.lock")):
            if not output.is_file():
                source = HERE / "kernels" / f"{name}.cpp"
                flags = ["-Wall", "-Wextra", "-Werror", f"-DMODE={mode}"]
                compile_library(compiler, [source], output, find_libraries(), flags)
        return output

    return build
