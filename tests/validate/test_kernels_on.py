"""Which kernel libraries a device gets: those of its architecture, ours built for it."""

from __future__ import annotations

import hashlib
import json
import struct
from types import SimpleNamespace

import pytest

from graphcheck.errors import DeviceError
from graphcheck.runtime.toolchain import native_machine
from graphcheck.validate.kernels_on import libraries_on

MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243}


def library(folder, name, machine, *, ours=False):
    path = folder / f"{name}.so"
    path.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + struct.pack("<H", MACHINES[machine]) + b"x")
    if ours:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        body = {"sha256": digest, "sources": ["max_pool2d"], "fast": True}
        path.with_suffix(".json").write_text(json.dumps(body))
    return path


def test_each_device_gets_those_for_it(tmp_path):
    one = library(tmp_path, "one", "x86_64")
    two = library(tmp_path, "two", "aarch64")
    assert libraries_on("x86_64", (one, two)) == (one,)
    assert libraries_on("aarch64", (one, two)) == (two,)
    assert libraries_on("aarch64", ()) == ()


def test_a_library_of_another_is_not_guessed(tmp_path):
    one = library(tmp_path, "one", "riscv64")
    with pytest.raises(DeviceError) as caught:
        libraries_on("aarch64", (one,))
    assert caught.value.message == (
        f"the kernel library {one} is for riscv64, the device is aarch64"
    )


def test_ours_is_built_for_the_device(tmp_path, monkeypatch):
    other = "aarch64" if native_machine() == "x86_64" else "x86_64"
    if other == "x86_64":
        pytest.skip("nothing is built for x86-64 on arm64")
    built = []

    def build(folder, *, ops, target, fast):
        built.append((ops, target, fast))
        made = library(folder, "one", other)
        return SimpleNamespace(library=made)

    monkeypatch.setattr("graphcheck.patch.library.build.build_library", build)
    monkeypatch.setenv("GRAPHCHECK_CACHE_DIR", str(tmp_path / "cache"))
    ours = library(tmp_path, "one", "x86_64", ours=True)
    (first,) = libraries_on(other, (ours,))
    assert built == [(("max_pool2d",), "aarch64-linux", True)]
    assert libraries_on(other, (ours,)) == (first,)
    assert len(built) == 1
    ours.write_bytes(ours.read_bytes() + b"changed")
    with pytest.raises(DeviceError):
        libraries_on(other, (ours,))
