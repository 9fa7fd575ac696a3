"""Kernel libraries: what one registers, and one sentence for what is none."""

from __future__ import annotations

import hashlib
import json
import platform
import struct
from pathlib import Path

import pytest
from op_calls import op_call, tensor

from graphcheck.errors import DeviceError, UsageError
from graphcheck.opset.library import manifest_of, read_library
from graphcheck.opset.load import load, with_libraries
from graphcheck.opset.support import kernel_key, support
from graphcheck.opset.types import Grade
from graphcheck.runtime.libraries import find_libraries
from graphcheck.runtime.toolchain import compile_library, find_compiler

_HEAD = """#include <executorch/runtime/kernel/operator_registry.h>
using namespace executorch::runtime;
static void run(KernelRuntimeContext&, Span<EValue*>) {}
"""
_ONE = 'static const auto one = register_kernel(Kernel("mine::op.out", run));'
_PAD = (
    'static const auto pad = register_kernel(Kernel("aten::constant_pad_nd.out", '
    'KernelKey("v1/6;0,1|6;0,1|6;0,1"), run));'
)
_TAKEN = 'static const auto two = register_kernel(Kernel("aten::add.out", run));'


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory):
    """Compiles the body of a kernel library."""
    try:
        libraries, compiler = find_libraries(), find_compiler()
    except DeviceError as error:
        pytest.skip(f"{error.message}. {error.hint}")
    folder = tmp_path_factory.mktemp("libraries")

    def make(name: str, body: str) -> Path:
        source = folder / f"{name}.cpp"
        source.write_text(_HEAD + body + "\n")
        compile_library(compiler, [source], folder / f"{name}.so", libraries)
        return folder / f"{name}.so"

    return make


def test_no_library_changes_nothing() -> None:
    opset = load("1.5.1")
    assert with_libraries(opset, ()) == opset


def test_what_a_library_registers(build) -> None:
    library = build("mine", _ONE + _PAD)
    found = read_library(library)
    assert dict(found.kernels) == {
        "mine::op.out": {""},
        "aten::constant_pad_nd.out": {"v1/6;0,1|6;0,1|6;0,1"},
    }
    assert (found.name, found.known) == ("mine.so", False)
    opset = with_libraries(load("1.5.1"), [str(library)])
    assert "mine::op.out" in opset.all_kernels
    assert "mine::op.out" not in opset.kernels
    pad = {"op": "aten.constant_pad_nd", "out": "aten::constant_pad_nd.out"}
    one = op_call(**pad, outputs=(tensor(2, 2),), self=tensor(2, 3), pad=[-1, 0])
    assert kernel_key(one) == "v1/6;0,1|6;0,1|6;0,1"
    answer = support(one, opset)
    assert (answer.grade, answer.library) == (Grade.REFUSED, found)
    other = op_call(**pad, outputs=(tensor(2, 2, 1),), self=tensor(2, 3, 1), pad=[0, 0, -1, 0])
    assert support(other, opset).library is None


def test_a_library_that_ends_the_process(build) -> None:
    library = build("twice", _TAKEN)
    with pytest.raises(UsageError) as caught:
        read_library(library)
    assert caught.value.message.startswith(
        f"{library} ended the process that loaded it: it was killed by SIGABRT. It said: "
    )


def test_a_library_that_registers_nothing(build) -> None:
    library = build("empty", "")
    with pytest.raises(UsageError) as caught:
        read_library(library)
    assert caught.value.message == f"{library} registers no kernel in the installed runtime."


def test_a_library_that_cannot_be_loaded(build) -> None:
    library = build("loose", "extern int not_there; int* there = &not_there;")
    with pytest.raises(UsageError) as caught:
        read_library(library)
    assert caught.value.message.startswith(f"The kernel library {library} cannot be loaded: ")
    assert "undefined symbol: not_there" in caught.value.message


def test_files_that_are_no_library(tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("#!/bin/sh")
    with pytest.raises(UsageError) as caught:
        read_library(text)
    assert caught.value.message == f"{text} is no shared library (no ELF file)."
    with pytest.raises(UsageError, match=r"cannot be read: No such file"):
        with_libraries(load("1.5.1"), [str(tmp_path / "none.so")])


def test_another_architecture_needs_the_manifest(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + struct.pack("<H", 243) + bytes(64))
    foreign = f"{library} is for riscv64, this machine is {platform.machine()}"
    with pytest.raises(UsageError) as caught:
        read_library(library)
    assert caught.value.message == (
        f"{foreign}, and there is no manifest lib.json beside it that tells what it holds."
    )
    manifest = {"schema": 1, "sha256": "0", "kernels": {"mine::op.out": [""]}}
    manifest_of(library).write_text(json.dumps(manifest))
    with pytest.raises(UsageError) as caught:
        read_library(library)
    assert caught.value.message == (
        f"{foreign}, and its manifest {manifest_of(library)} is that of another file."
    )
    manifest["sha256"] = hashlib.sha256(library.read_bytes()).hexdigest()
    manifest_of(library).write_text(json.dumps(manifest))
    assert dict(read_library(library).kernels) == {"mine::op.out": {""}}
    manifest_of(library).write_text("{")
    with pytest.raises(UsageError, match="is broken"):
        read_library(library)
