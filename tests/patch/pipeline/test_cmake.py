"""CMake: patches at configure time, the built library as a package, the kernels as a subfolder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from graphcheck.resources import patches_dir
from graphcheck.runtime.libraries import find_package

TREE = Path(__file__).parents[1] / "source" / "executorch_tree"
GENERATOR = ("-G", "Ninja") if shutil.which("ninja") else ()
pytestmark = [
    pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake here"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here"),
]


def cmake(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.19)\n" + text)
    done = subprocess.run(
        ["cmake", "-S", str(folder), "-B", str(folder / "build"), *GENERATOR, *options],
        capture_output=True,
        text=True,
        timeout=300,
    )
    done.stderr = " ".join(done.stderr.split())  # CMake wraps its messages
    return done


def build(folder: Path) -> None:
    done = subprocess.run(
        ["cmake", "--build", str(folder / "build")], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_tree_is_checked_or_patched_at_configure_time(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(TREE, tree)
    head = (
        "project(app NONE)\n"
        f'set(GRAPHCHECK_COMMAND "{sys.executable};-m;graphcheck")\n'
        f'list(APPEND CMAKE_MODULE_PATH "{patches_dir() / "cmake"}")\n'
        "include(GraphcheckSource)\n"
    )
    checked = head + f'graphcheck_check_source("{tree}")\n'
    refused = cmake(tmp_path / "checks", checked)
    assert refused.returncode != 0
    assert "is not as it should be" in refused.stderr
    assert "ExecuTorch 1.2.3: 14 needed." in refused.stderr
    stamp = tmp_path / "stamp.json"
    done = cmake(
        tmp_path / "applies",
        head + f'graphcheck_apply_source("{tree}" ONLY flip var STAMP "{stamp}")\n'
        f'graphcheck_check_source("{tree}" ONLY flip var)\n',
    )
    assert done.returncode == 0, done.stderr
    assert "-- graphcheck: ExecuTorch 1.2.3: 2 files changed." in done.stdout
    assert "-- graphcheck: ExecuTorch 1.2.3: 2 applied." in done.stdout
    assert stamp.is_file()
    assert cmake(tmp_path / "checks", checked).returncode != 0


def test_a_built_library_is_found_and_linked_although_nobody_names_it(tmp_path: Path) -> None:
    output = tmp_path / "kernels"
    output.mkdir()
    config = "graphcheck_kernels-config.cmake"
    shutil.copy(patches_dir() / "cmake" / config, output)
    project = (
        "project(app CXX)\n"
        f'find_package(graphcheck_kernels REQUIRED PATHS "{output}" NO_DEFAULT_PATH)\n'
        "add_executable(app main.cpp)\ntarget_link_libraries(app PRIVATE graphcheck::kernels)\n"
    )
    app = tmp_path / "app"
    missing = cmake(app, project)
    assert missing.returncode != 0
    assert "there is no libgraphcheck_kernels.so beside it" in missing.stderr
    source = tmp_path / "kernels.cpp"
    source.write_text('#include <cstdio>\nstatic int at_load = std::puts("registered");\n')
    library = output / "libgraphcheck_kernels.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True, timeout=120)
    (app / "main.cpp").write_text("int main() {}\n")
    done = cmake(app, project)
    assert done.returncode == 0, done.stderr
    build(app)
    ran = subprocess.run([app / "build" / "app"], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "registered\n"


MAIN = """
#include <executorch/runtime/kernel/operator_registry.h>
#include <cstdio>
#include <cstring>
int main() {
  int keyed = 0;
  for (const auto& kernel : executorch::runtime::get_registered_kernels()) {
    if (std::strcmp(kernel.name_, "aten::max_pool2d_with_indices_backward.grad_input") == 0) {
      keyed += kernel.kernel_key_.data() != nullptr;
    }
  }
  std::printf("%d\\n", keyed);
}
"""


def test_the_kernels_as_a_subfolder_of_another_build(tmp_path: Path) -> None:
    pytest.importorskip("executorch")
    package = find_package()
    assert package is not None
    project = (
        "project(app CXX)\nset(CMAKE_CXX_STANDARD 17)\n"
        "set(GRAPHCHECK_KERNELS max_pool2d_with_indices_backward)\n"
        f'set(GRAPHCHECK_EXECUTORCH_INCLUDE "{package / "include"}")\n'
        f'add_subdirectory("{patches_dir()}" graphcheck_kernels)\n'
        "add_executable(app main.cpp)\n"
        "target_include_directories(app SYSTEM PRIVATE ${GRAPHCHECK_EXECUTORCH_INCLUDE}\n"
        "  ${GRAPHCHECK_EXECUTORCH_INCLUDE}/executorch/runtime/core/portable_type/c10)\n"
        "target_compile_definitions(app PRIVATE C10_USING_CUSTOM_GENERATED_MACROS)\n"
        f"target_link_options(app PRIVATE -L{package / 'lib'} -Wl,-rpath,{package / 'lib'}\n"
        "  -Wl,--no-as-needed)\n"
        "target_link_libraries(app PRIVATE graphcheck::kernels\n"
        "  executorch executorch_kernels_optimized)\n"
    )
    app = tmp_path / "app"
    app.mkdir()
    (app / "main.cpp").write_text(MAIN)
    done = cmake(app, project)
    assert done.returncode == 0, done.stderr
    build(app)
    ran = subprocess.run([app / "build" / "app"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 0


def test_a_subfolder_without_a_runtime_says_so(tmp_path: Path) -> None:
    project = f'project(app CXX)\nadd_subdirectory("{patches_dir()}" graphcheck_kernels)\n'
    done = cmake(tmp_path / "app", project)
    assert done.returncode != 0
    assert "add ExecuTorch before this folder" in done.stderr
