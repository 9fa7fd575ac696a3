"""Opsets from a wheel, a source tree and the live registry."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from graphcheck.errors import DeviceError, UsageError
from graphcheck.opset.format import dump
from graphcheck.opset.generate import generate
from graphcheck.opset.generate.names import from_library, from_yaml
from graphcheck.opset.load import load

ELF = (
    b"\x7fELF\x01\xff\xffaten::sym_size.int\0aten::add.out\0name of aten::sub.out\0"
    b"vector::_M_realloc_insert\0unordered_map::at\0dim_order_ops::_clone_dim_order.out\0"
    b"executorch_prim::add.Scalar\0aten::mm\0Not::aName\0aten::half"
)
NAMES = {
    "aten::sym_size.int",
    "aten::add.out",
    "dim_order_ops::_clone_dim_order.out",
    "executorch_prim::add.Scalar",
    "aten::mm",
}
YAML = """
- op: relu.out
  kernels: []
- func: et_copy::_h2d_copy.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  kernels: []
"""


def wheel(path: Path, files: dict[str, bytes], version: str = "1.5.1+cpu") -> Path:
    metadata = f"Metadata-Version: 2.1\nName: executorch\nVersion: {version}\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"executorch-{version}.dist-info/METADATA", metadata)
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_names_in_a_library() -> None:
    assert from_library(ELF) == NAMES


def test_names_in_a_yaml_file() -> None:
    assert from_yaml(YAML, "x") == {"aten::relu.out", "et_copy::_h2d_copy.out"}
    assert from_yaml("", "x") == frozenset()
    with pytest.raises(UsageError, match=r"x is no list of kernels\."):
        from_yaml("a: 1", "x")
    with pytest.raises(UsageError, match="x has an entry without 'op' and 'func'"):
        from_yaml("- kernels: []", "x")
    with pytest.raises(UsageError, match="x is not valid YAML"):
        from_yaml("[", "x")


def test_a_new_wheel(tmp_path: Path) -> None:
    path = wheel(
        tmp_path / "executorch-1.5.1.whl",
        {
            "executorch/lib/libexecutorch_kernels_optimized.so": ELF,
            "executorch/lib/libexecutorch.so": b"\0executorch_prim::mul.Scalar\0",
            "executorch/lib/libexecutorch_kernels_quantized.so": b"\0quantized_decomposed::x\0",
            "executorch/kernels/portable/functions.yaml": YAML.encode(),
        },
    )
    opset = generate(path)
    assert opset.version == "1.5.1"
    assert opset.library == "libexecutorch_kernels_optimized.so"
    assert opset.kernels == NAMES | {
        "executorch_prim::mul.Scalar",
        "aten::relu.out",
        "et_copy::_h2d_copy.out",
    }
    assert opset.source == "the wheel executorch-1.5.1.whl"


def test_libraries_of_a_wheel(tmp_path: Path) -> None:
    functions = (
        b"_ZN5torch8executor6native11opt_add_outERN\0_ZN5torch8executor6native13opt_where_outE\0"
    )
    names = b"\0aten::add.out\0aten::where.self_out\0aten::mm\0"
    quantized = b"\0quantized_decomposed::add.out\0quantized_decomposed::half.out\0"
    files = {
        "executorch/extension/pybindings/_portable_lib.so": names + functions,
        "executorch/kernels/quantized/libquantized_ops_aot_lib.so": quantized,
        "executorch/kernels/quantized/quantized.yaml": b"- func: quantized_decomposed::add.out(",
        "executorch/kernels/portable/functions.yaml": b"- op: add.out\n",
        "executorch/version.py": b"git_version: Optional[str] = '" + b"0a" * 20 + b"'\n",
    }
    opset = generate(wheel(tmp_path / "a.whl", files))
    assert opset.optimized == {"aten::add.out", "aten::where.self_out"}
    assert opset.optimized_only == {"aten::where.self_out"}
    assert opset.quantized == {"quantized_decomposed::add.out"}
    assert opset.commit == "0a" * 20
    del files["executorch/kernels/portable/functions.yaml"]
    assert generate(wheel(tmp_path / "b.whl", files)).optimized_only == frozenset()
    files["executorch/extension/pybindings/_portable_lib.so"] = (
        names + b"_ZN5torch8executor6native11opt_new_outERN\0"
    )
    with pytest.raises(UsageError) as caught:
        generate(wheel(tmp_path / "c.whl", files))
    assert caught.value.message == (
        f"{tmp_path / 'c.whl'} has optimized kernels that belong to no registered name: "
        "opt_new_out."
    )


def test_an_old_wheel_has_names_in_the_extension_only(tmp_path: Path) -> None:
    path = wheel(
        tmp_path / "old.whl",
        {"executorch/extension/pybindings/_portable_lib.cpython-311-x86_64-linux-gnu.so": ELF},
        version="0.7.0",
    )
    opset = generate(path)
    assert (opset.version, opset.kernels) == ("0.7.0", NAMES)
    assert opset.library == "_portable_lib.cpython-311-x86_64-linux-gnu.so"


def test_wheels_that_are_none(tmp_path: Path) -> None:
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"no zip")
    with pytest.raises(UsageError, match="is no readable wheel"):
        generate(broken)
    empty = wheel(tmp_path / "empty.whl", {"executorch/__init__.py": b""})
    with pytest.raises(UsageError, match="holds no kernels: no kernel YAML and no library"):
        generate(empty)
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("torch-2.0.dist-info/METADATA", "Version: 2.0\n")
    with pytest.raises(UsageError) as caught:
        generate(other)
    assert caught.value.message == f"{other} is no executorch wheel: it has no executorch metadata."


def test_a_source_tree(tmp_path: Path) -> None:
    for name, text in {
        "kernels/portable/functions.yaml": YAML,
        "kernels/optimized/optimized.yaml": "- op: add.out\n  kernels: []\n",
        "kernels/prim_ops/register_prim_ops.cpp": 'Kernel("executorch_prim::add.Scalar", f), '
        'Kernel("aten::sym_size.int", g)',
        "version.txt": "1.5.0a0\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    opset = generate(tmp_path)
    assert opset.version == "1.5.0"
    assert opset.kernels == {
        "aten::relu.out",
        "et_copy::_h2d_copy.out",
        "aten::add.out",
        "executorch_prim::add.Scalar",
        "aten::sym_size.int",
    }


def test_what_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        generate(tmp_path)
    assert caught.value.message == (
        f"{tmp_path} is no ExecuTorch source tree: it has no kernels/portable/functions.yaml."
    )
    with pytest.raises(UsageError) as caught:
        generate("nothing.txt")
    assert caught.value.message == (
        "No opset can be made from 'nothing.txt': it is neither a .whl file, nor the folder of an "
        "ExecuTorch source tree, nor the word `live` or `installed`."
    )


def test_the_live_registry_agrees_with_the_shipped_opset() -> None:
    """The names read from the wheel's file are exactly those the runtime registers."""
    from importlib import metadata

    try:
        version = metadata.version("executorch")
    except metadata.PackageNotFoundError:
        pytest.skip("executorch is not installed")
    if not version.startswith("1.5.1"):
        pytest.skip(f"the shipped opset is of 1.5.1, installed is {version}")
    live = generate("live")
    assert live.kernels == load("1.5.1").kernels
    assert "the registry of the installed executorch" in dump(live)


def test_a_library_that_cannot_be_loaded() -> None:
    pytest.importorskip("executorch")
    from graphcheck.opset.generate.live import generate_live

    with pytest.raises(DeviceError, match=r"The kernel library /none\.so cannot be loaded"):
        generate_live(("/none.so",))
