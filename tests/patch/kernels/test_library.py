"""The library as a whole: what it registers, when it stays out, what its builder says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from graphcheck.cli.main import run
from graphcheck.errors import UsageError
from graphcheck.opset.library import list_kernels, manifest_of, read_library
from graphcheck.patch.library.build import build_library
from graphcheck.patch.library.sources import common_sources, kernel_sources
from graphcheck.patch.library.targets import find_target
from graphcheck.resources import patches_dir
from graphcheck.runtime.toolchain import compile_library

FALLBACKS = {
    "aten::_adaptive_avg_pool2d_backward.out",
    "aten::avg_pool2d_backward.grad_input",
    "aten::embedding_dense_backward.out",
    "aten::scatter_reduce.two_out",
    "aten::sort.values",
    "aten::sort.values_stable",
    "graphcheck::batch_norm_training.out",
    "graphcheck::batch_norm_training_backward.out",
}
POOL = "aten::max_pool2d_with_indices_backward.grad_input"


def test_what_it_registers(library):
    found = read_library(library)
    assert found.known
    assert {name for name, keys in found.kernels.items() if keys == {""}} == FALLBACKS
    assert "v1/6;0,1,2,3|6;0,1,2,3|4;0,1,2,3|6;0,1,2,3|6;0,1,2,3" in found.kernels[POOL]
    # The registry of the wheel holds 2000; its own kernels are some 240.
    assert sum(map(len, found.kernels.values())) < 1500
    manifest = json.loads(manifest_of(library).read_text())
    assert {name: set(keys) for name, keys in manifest["kernels"].items()} == dict(found.kernels)
    assert manifest["sources"] == list(kernel_sources())


def test_a_right_kernel_of_the_runtime_stays(host, tmp_path):
    library = tmp_path / "probed.so"
    sources = [*common_sources(), Path(__file__).parent / "probed.cpp"]
    compile_library(
        host.compiler, sources, library, host.libraries, ["-Wall", "-Wextra", "-Werror"]
    )
    listing = list_kernels(library)
    assert listing.report.splitlines() == [
        "aten::neg.out\tleft out: the runtime's own is right",
        "aten::abs.out\tregistered: 1 keys",
        "aten::exp.out\tleft out: the runtime's own is right",
        "graphcheck::nobody_has_it.out\tregistered: the runtime has none",
    ]
    assert listing.kernels == {
        "aten::abs.out": ["v1/6;0|6;0|6;0"],
        "graphcheck::nobody_has_it.out": [""],
    }


def test_loaded_twice_it_registers_once(library, caller, tmp_path):
    from calling import Kernels

    again = tmp_path / "again.so"
    shutil.copy(library, again)
    kernels = Kernels(caller, [library, again])
    kernels.seed(1)
    assert kernels.close() == 0


def test_a_chosen_kernel(host, tmp_path, capsys):
    code = run(["patch", "build", "--op", "sort", "--output", str(tmp_path / "out")])
    assert code == 0
    assert capsys.readouterr().out.splitlines() == [
        "kernel                    registers",
        "aten::sort.values         as the missing operator's kernel",
        "aten::sort.values_stable  as the missing operator's kernel",
        f"{tmp_path}/out/libgraphcheck_kernels.so",
        f"{tmp_path}/out/libgraphcheck_kernels.json",
    ]
    # Nothing half-made is left.
    left = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert left == {".so", ".json", ".cmake"}


def test_a_source_tree_without_a_build(host, tmp_path):
    """Headers are enough: the library finds the runtime when it is loaded."""
    tree = tmp_path / "tree"
    shutil.copytree(host.libraries.include[0] / "executorch", tree)
    (tree / "version.txt").write_text("1.5.1\n")
    built = build_library(tmp_path / "out", ops=["sort"], target=str(tree))
    assert built.target == str(tree)
    assert set(read_library(built.library).kernels) == {
        "aten::sort.values",
        "aten::sort.values_stable",
    }


def test_what_cannot_be_built(tmp_path):
    with pytest.raises(UsageError) as caught:
        kernel_sources(["sorted"])
    assert caught.value.message == "There is no kernel 'sorted'."
    assert caught.value.hint.startswith(
        "Did you mean sort? Kernels: adaptive_avg_pool2d_backward, "
    )
    with pytest.raises(UsageError) as caught:
        kernel_sources(["flip"])
    assert caught.value.message == (
        "'flip' is an edit of ExecuTorch's source, not a kernel of the library."
    )
    assert caught.value.hint == "Use `graphcheck patch apply --source DIR --only flip`."
    with pytest.raises(UsageError) as caught:
        find_target("riscv")
    assert caught.value.message == (
        "There is no target 'riscv': it is neither host, nor aarch64-linux, nor a folder."
    )
    with pytest.raises(UsageError, match="is no ExecuTorch tree"):
        find_target(str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        build_library(tmp_path / "file" / "out", ops=["sort"])


def test_no_line_of_another_project():
    for file in sorted(patches_dir().rglob("*.[ch]*")):
        assert "Copyright" not in file.read_text()
