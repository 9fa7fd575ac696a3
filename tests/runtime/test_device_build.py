"""`device build`: the commands, an actual build, and folders that are not what they should be."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from graphcheck.errors import DeviceError, UsageError
from graphcheck.runtime.device_build import carry_out, plan_build
from graphcheck.runtime.devices.host import run_here, train
from graphcheck.runtime.devices.job import train_with
from graphcheck.runtime.libraries import find_libraries


@pytest.fixture
def ndk(tmp_path):
    file = tmp_path / "ndk" / "build" / "cmake" / "android.toolchain.cmake"
    file.parent.mkdir(parents=True)
    file.touch()
    return tmp_path / "ndk"


@pytest.fixture
def sources(tmp_path):
    header = tmp_path / "executorch" / "runtime" / "executor" / "method.h"
    header.parent.mkdir(parents=True)
    header.touch()
    (tmp_path / "executorch" / "version.txt").write_text("1.5.1\n")
    return tmp_path / "executorch"


def _plan(executorch, tmp_path, **more):
    given = {"ndk": None, "toolchain": None, "output": tmp_path / "out", "work": tmp_path / "work"}
    return plan_build(executorch, **(given | more))


def test_from_sources_with_an_ndk(sources, ndk, tmp_path):
    plan = _plan(sources, tmp_path, ndk=ndk)
    assert [step.what for step in plan.steps] == [
        "configure ExecuTorch",
        "build ExecuTorch and install it into the build folder",
        "configure the runner",
        "build the runner",
    ]
    for step in (plan.steps[0], plan.steps[2]):
        assert f"-DCMAKE_TOOLCHAIN_FILE={ndk}/build/cmake/android.toolchain.cmake" in step.words
        assert "-DANDROID_ABI=arm64-v8a" in step.words
    assert "-DEXECUTORCH_BUILD_KERNELS_OPTIMIZED=ON" in plan.steps[0].words
    assert f"-DCMAKE_PREFIX_PATH={tmp_path}/work/install" in plan.steps[2].words
    assert "-DGRAPHCHECK_EXECUTORCH_VERSION=1.5.1" in plan.steps[2].words
    assert plan.built == tmp_path / "work" / "runner" / "runner"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ndk": "nothing"}, "this is no Android NDK"),
        ({"toolchain": "nothing"}, "there is no such file"),
        ({"ndk": "ndk", "toolchain": "nothing"}, "leave --toolchain out"),
        ({"executorch": "ndk"}, "this is no ExecuTorch"),
    ],
)
def test_folders_that_are_not_what_they_should_be(sources, ndk, tmp_path, options, message):
    given = {name: tmp_path / value for name, value in options.items()}
    executorch = given.pop("executorch", sources)
    with pytest.raises(UsageError, match=message):
        _plan(executorch, tmp_path, **given)


def test_a_step_that_fails_is_told(sources, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is missing")
    with pytest.raises(DeviceError, match="cannot configure ExecuTorch: cmake exited with code 1"):
        carry_out(_plan(sources, tmp_path), lambda _: None)


# The names of an install tree of ExecuTorch, standing for the libraries of the wheel.
_CONFIG = """
add_library(executorch INTERFACE IMPORTED)
target_include_directories(executorch INTERFACE {include})
target_compile_definitions(executorch INTERFACE C10_USING_CUSTOM_GENERATED_MACROS)
target_link_libraries(executorch INTERFACE {libraries} -Wl,-rpath,{folder})
foreach(name extension_data_loader extension_flat_tensor)
  add_library(${{name}} INTERFACE IMPORTED)
endforeach()
add_library(portable_ops_lib STATIC IMPORTED)
set_target_properties(portable_ops_lib PROPERTIES IMPORTED_LOCATION {archive})
"""


def test_a_runner_is_built_and_trains(programs, compiler, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is missing")
    libraries = find_libraries()
    tree = tmp_path / "installed"
    config = tree / "lib" / "cmake" / "ExecuTorch" / "executorch-config.cmake"
    config.parent.mkdir(parents=True)
    # Nothing refers to what registers kernels: the archive must be linked all the same.
    (tmp_path / "kernels.cpp").write_text("extern const int linked_whole = 1;\n")
    words = [*compiler.command, "-c", str(tmp_path / "kernels.cpp"), "-o", str(tmp_path / "k.o")]
    subprocess.run(words, check=True)
    subprocess.run(
        ["ar", "rcs", str(tree / "libportable_ops_lib.a"), str(tmp_path / "k.o")], check=True
    )
    config.write_text(
        _CONFIG.format(
            include=" ".join(map(str, libraries.include)),
            libraries=" ".join(["-Wl,--no-as-needed", *map(str, libraries.shared[:2])]),
            folder=libraries.library_dir,
            archive=tree / "libportable_ops_lib.a",
        )
    )
    told = []
    runner = carry_out(_plan(tree, tmp_path), told.append)
    assert len(told) == 2
    assert runner == tmp_path / "out"
    symbols = subprocess.run(["nm", "-C", str(runner)], capture_output=True, text=True, check=True)
    assert "linked_whole" in symbols.stdout
    hello = subprocess.run([str(runner), "--hello"], capture_output=True, check=True)
    assert json.loads(hello.stdout)["endian"] == "little"
    request = programs["healthy"].request(steps=3)
    trace = train_with(lambda job: run_here((str(runner),), job), request, "")
    assert trace.failure is None
    losses = [step.loss for step in train(request).steps]
    assert [step.loss for step in trace.steps] == pytest.approx(losses, rel=1e-6)
