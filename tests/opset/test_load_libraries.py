"""Kernels of the user's own shared libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphcheck.errors import UsageError
from graphcheck.opset.load import load, with_libraries


def test_names_of_a_library_are_extra_kernels(tmp_path: Path) -> None:
    library = tmp_path / "libmine.so"
    library.write_bytes(b"\x7fELF...\0mine::op.out\0aten::add.out\0rest")
    opset = with_libraries(load("1.5.1"), [str(library)])
    assert opset.extra == {"mine::op.out", "aten::add.out"}
    assert "mine::op.out" not in opset.kernels


def test_no_library_changes_nothing() -> None:
    opset = load("1.5.1")
    assert with_libraries(opset, ()) == opset


def test_a_file_without_kernels_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "libempty.so"
    library.write_bytes(b"\x7fELF")
    with pytest.raises(UsageError) as caught:
        with_libraries(load("1.5.1"), [str(library)])
    assert caught.value.message == (
        f"{library} registers no kernel: it holds no name such as `aten::add.out`."
    )
    with pytest.raises(UsageError, match=r"cannot be read: No such file"):
        with_libraries(load("1.5.1"), [str(tmp_path / "none.so")])
