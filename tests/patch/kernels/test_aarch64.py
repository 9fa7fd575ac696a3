"""The arm64 library, built by the cross compiler and run under qemu.

GRAPHCHECK_AARCH64_EXECUTORCH names the unpacked arm64 wheel of executorch (its package folder).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy
import pytest
from test_kernel_in_runtime import models, run_request

from graphcheck.errors import DeviceError
from graphcheck.graph.pte import read_pte
from graphcheck.opset.library import read_library
from graphcheck.patch.library.build import build_library
from graphcheck.patch.library.targets import find_target
from graphcheck.process import run_command
from graphcheck.runtime.answer import read_trace
from graphcheck.runtime.build import runner_sources
from graphcheck.runtime.libraries import find_libraries
from graphcheck.runtime.toolchain import compile_program
from graphcheck.runtime.wire import decode_trace, encode_request

__all__ = ["models"]

OPS = ("avg_pool2d_backward", "max_pool2d_with_indices_backward")
SYSROOT = "/usr/aarch64-linux-gnu"


@pytest.fixture(scope="module")
def arm_library(tmp_path_factory) -> Path:
    """The library of two kernels for arm64; skips without the cross compiler."""
    try:
        find_target("aarch64-linux")
    except DeviceError as error:
        pytest.skip(f"{error.message}. {error.hint}")
    folder = tmp_path_factory.mktemp("aarch64")
    return build_library(folder, ops=OPS, target="aarch64-linux").library


def test_it_is_known_by_its_manifest(arm_library):
    found = read_library(arm_library)
    assert set(found.kernels) == {
        "aten::avg_pool2d_backward.grad_input",
        "aten::max_pool2d_with_indices_backward.grad_input",
    }


@pytest.fixture(scope="module")
def arm_runner(arm_library) -> tuple[Path, Path]:
    """The native runner for arm64, and the package it runs with."""
    package = os.environ.get("GRAPHCHECK_AARCH64_EXECUTORCH", "")
    if not package:
        pytest.skip("GRAPHCHECK_AARCH64_EXECUTORCH names no arm64 package of executorch")
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is missing: apt install qemu-user")
    libraries = find_libraries(Path(package))
    runner = arm_library.parent / "runner"
    sources = [source for source in runner_sources() if source.suffix == ".cpp"]
    flags = ["-Wl,--allow-shlib-undefined"]
    compile_program(find_target("aarch64-linux").compiler, sources, runner, libraries, (), flags)
    return runner, libraries.library_dir


@pytest.mark.parametrize("name", ["seed_cnn", "avg_pool"])
def test_it_trains_as_eager_does(models, arm_library, arm_runner, tmp_path, name):
    runner, shared = arm_runner
    request, facts = run_request(models, name, (arm_library,))
    method = read_pte(request.program).method("forward")
    (tmp_path / "request").write_bytes(encode_request(request, method))
    emulator = ["qemu-aarch64", "-L", SYSROOT, "-E", f"LD_LIBRARY_PATH={shared}:{SYSROOT}/lib"]
    files = [str(tmp_path / "request"), str(tmp_path / "trace")]
    done = run_command([*emulator, str(runner), *files], timeout=300)
    assert done.code == 0, done.output[-500:]
    trace = read_trace(decode_trace((tmp_path / "trace").read_bytes()), method)
    losses = [step.loss for step in trace.steps]
    assert numpy.allclose(losses, facts["losses"], rtol=1e-5, atol=0)
