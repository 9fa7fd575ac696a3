"""`graphcheck oplist`: the same list as ExecuTorch's own tool, and what a build lacks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from graphcheck.artefacts.oplist import Build, Lack, lacks, operators_of, read_build
from graphcheck.artefacts.oplist_text import as_yaml
from graphcheck.cli.main import run
from graphcheck.errors import UsageError
from graphcheck.graph.pte import read_pte

NAMES = ("tiny", "lists", "pools", "faulty", "outside", "delegated")


@pytest.mark.parametrize("name", NAMES)
def test_the_list_is_that_of_executorch(files, name):
    path = files / f"{name}.pte"
    theirs = yaml.safe_load((files / f"{name}.oplist.yaml").read_text())
    ours = yaml.safe_load(as_yaml(operators_of(read_pte(path), str(path))))
    if name in ("outside", "delegated"):
        # Ours says what a method is for; theirs says training of everything.
        for entry in theirs["operators"].values():
            entry["is_used_for_training"] = False
    assert ours == theirs


def test_torchgen_reads_it(files):
    selector = pytest.importorskip("torchgen.selective_build.selector")
    text = as_yaml(operators_of(read_pte(files / "pools.pte"), "pools.pte"))
    built = selector.SelectiveBuilder.from_yaml_str(text)
    assert built.is_root_operator("aten::convolution_backward.out")
    assert built.is_operator_selected_for_training("aten::convolution_backward.out")
    assert not built.is_operator_selected("aten::sort.values")


def test_forward_and_backward_are_told_apart(files):
    found = {
        entry.name: entry for entry in operators_of(read_pte(files / "pools.pte"), "x").operators
    }
    pool = found["aten::max_pool2d_with_indices_backward.grad_input"]
    assert (pool.forward, pool.backward) == (0, 2)
    assert (found["aten::convolution.out"].forward, found["aten::convolution.out"].backward) == (
        2,
        0,
    )


def test_what_a_build_lacks(files):
    wanted = operators_of(read_pte(files / "pools.pte"), "pools.pte")
    everything = {entry.name: frozenset(entry.keys) for entry in wanted.operators}
    assert lacks(wanted, Build(everything)) == ()
    assert lacks(wanted, Build(everything=True)) == ()
    pool = "aten::max_pool2d_with_indices_backward.grad_input"
    fewer = {name: keys for name, keys in everything.items() if name != pool}
    assert lacks(wanted, Build(fewer)) == (Lack(pool, (), 2),)
    (key, *_) = everything["aten::relu.out"]
    other = {**everything, "aten::relu.out": frozenset(["v1/5;0,1|5;0,1|5;0,1"])}
    (lack,) = lacks(wanted, Build(other))
    assert lack.operator == "aten::relu.out"
    assert key in lack.keys
    for all_keys in (frozenset(), frozenset(["default"])):
        assert lacks(wanted, Build({**everything, "aten::relu.out": all_keys})) == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("operators: {aten::add.out: {include_all_overloads: false}}", {"aten::add.out"}),
        ("operators: {aten::add: {include_all_overloads: true}}", {"aten::add", "aten::add.*"}),
        ("et_kernel_metadata: {aten::add.out: [v1/6;|6;]}\noperators: {}", {"aten::add.out"}),
        ("- op: add.out\n- func: my::f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
         {"aten::add.out", "my::f.out"}),
        ("- aten::add.out", {"aten::add.out"}),
    ],
)  # fmt: skip
def test_forms_of_a_build(tmp_path, text, names):
    path = tmp_path / "build.yaml"
    path.write_text(text)
    assert set(read_build(path).operators) == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it lists no operators."),
        ("just words", "it lists no operators."),
        ("a: [1", "it is no YAML: "),
        ("- 1\n- {x: 2}", "it lists no operators."),
        ("[" * 3000, "it is no YAML: "),
    ],
)
def test_files_that_are_no_build(tmp_path, text, why):
    path = tmp_path / "build.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_build(path)
    assert caught.value.message.startswith(f"--compare {path}: {why}")


def test_the_command(files, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(files / "pools.pte", tmp_path)
    assert run(["oplist", "pools.pte", "--format", "yaml", "-o", "build.yaml"]) == 0
    assert run(["oplist", "pools.pte", "--compare", "build.yaml"]) == 0
    out = capsys.readouterr().out
    assert out == "build.yaml has every one of 27 operators that pools.pte needs.\n"
    lines = Path("build.yaml").read_text().splitlines()
    at = lines.index("  aten::relu.out:", lines.index("operators:"))
    kernels = lines.index("  aten::relu.out:")
    without = lines[:kernels] + lines[kernels + 2 : at] + lines[at + 6 :]
    Path("less.yaml").write_text("\n".join(without))
    assert run(["oplist", "pools.pte", "--compare", "less.yaml"]) == 1
    assert capsys.readouterr().out == (
        "aten::relu.out: not in the build (2 calls)\n"
        "less.yaml lacks 1 of 27 operators that pools.pte needs.\n"
    )
    assert run(["oplist", "pools.pte", "--compare", "less.yaml", "--format", "json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert [lack["operator"] for lack in body["lacks"]] == ["aten::relu.out"]
    assert run(["oplist", "pools.pte"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "27 operators of pools.pte: 10 for the backward pass alone, 0 part of the runtime"
    )
    assert run(["oplist", "pools.pte", "--format", "make"]) == 2
    assert run(["oplist", "pools.pte", "--format", "cmake", "--compare", "less.yaml"]) == 2
    complaints = capsys.readouterr().err
    assert "--format: there is no format `make`." in complaints
    assert "--compare tells what a build lacks, which is no cmake." in complaints


def test_cmake_takes_it(files, tmp_path):
    cmake = Path(sys.executable).with_name("cmake")
    if not cmake.is_file():
        pytest.skip("cmake is not installed")
    from graphcheck.artefacts.oplist_text import as_cmake

    cache = tmp_path / "ops.cmake"
    cache.write_text(as_cmake(operators_of(read_pte(files / "tiny.pte"), "tiny.pte")))
    script = tmp_path / "show.cmake"
    script.write_text(f'include({cache})\nmessage(STATUS "${{EXECUTORCH_SELECT_OPS_LIST}}")\n')
    done = subprocess.run(
        [str(cmake), "-P", str(script)], capture_output=True, text=True, check=True, timeout=60
    )
    wanted = operators_of(read_pte(files / "tiny.pte"), "x").operators
    assert done.stdout.strip() == f"-- {','.join(entry.name for entry in wanted)}"
