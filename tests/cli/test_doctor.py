"""doctor: every thing that can be missing is said, with how to get it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphcheck.cli import diagnosis
from graphcheck.cli.diagnosis import Item, RuntimeFacts
from graphcheck.errors import DeviceError
from graphcheck.opset.load import load
from graphcheck.process import WorkerFailure


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that has everything, whatever this one has."""
    import graphcheck.runtime.libraries
    import graphcheck.runtime.toolchain
    from graphcheck.runtime.toolchain import Compiler

    kernels = tuple(sorted(load("1.5.1").kernels))
    monkeypatch.setattr(diagnosis, "_ask", lambda training: RuntimeFacts(kernels=kernels))
    monkeypatch.setattr(
        graphcheck.runtime.toolchain, "find_compiler", lambda: Compiler(("c++",), "c++ 12")
    )
    monkeypatch.setenv("GRAPHCHECK_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def items(command: Callable[..., Any]) -> Callable[[], tuple[int, dict[str, Item]]]:
    def call() -> tuple[int, dict[str, Item]]:
        ended = command("doctor", "--json")
        found = [Item(**item) for item in json.loads(ended.out)["items"]]
        return ended.code, {item.name: item for item in found}

    return call


pytestmark = pytest.mark.usefixtures("healthy")


def test_everything_is_there(command: Callable[..., Any], items: Callable[..., Any]) -> None:
    code, found = items()
    assert code == 0
    assert found["operator set"].state == "found"
    assert found["operator set"].detail.endswith(", the same as the registry")
    assert found["native runner"].detail == "not built yet; the first validate builds it"
    ended = command("doctor")
    assert ended.out.splitlines()[-1] == (
        "Everything that check and validate need is there. Next: graphcheck model.py"
    )


def test_no_compiler(
    command: Callable[..., Any], items: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import graphcheck.runtime.toolchain

    def none() -> None:
        raise DeviceError("no C++ compiler found", "apt install g++")

    monkeypatch.setattr(graphcheck.runtime.toolchain, "find_compiler", none)
    code, found = items()
    assert code == 4
    assert found["C++ compiler"] == Item(
        "C++ compiler", "MISSING", "no C++ compiler found; validate needs one", "apt install g++"
    )
    assert found["native runner"].state == "NOT CHECKED"
    text = command("doctor").out
    assert text.splitlines()[-1] == "1 thing missing: C++ compiler."
    assert "success" not in text
    assert "Everything" not in text


def test_package_not_installed(items: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    real = diagnosis.metadata.version

    def version(name: str) -> str:
        if name == "executorch":
            raise diagnosis.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(diagnosis.metadata, "version", version)
    code, found = items()
    assert code == 4
    assert found["executorch"].detail == "not installed"
    assert found["executorch"].hint.startswith("pip install 'executorch")
    assert found["runtime"].state == "NOT CHECKED"


def test_package_of_another_version(
    items: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = diagnosis.metadata.version
    monkeypatch.setattr(
        diagnosis.metadata, "version", lambda name: "1.0.0" if name == "torch" else real(name)
    )
    code, found = items()
    assert code == 4
    assert found["torch"].detail.startswith("1.0.0 is installed, graphcheck needs ")


@pytest.mark.parametrize("part", ["torch_error", "runtime_error"])
def test_import_fails(
    items: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    facts = RuntimeFacts(**{part: "ImportError: no symbol"})
    monkeypatch.setattr(diagnosis, "_ask", lambda training: facts)
    code, found = items()
    assert code == 4
    assert found["runtime"].detail == "ImportError: no symbol"


def test_training_extension_is_a_note(
    items: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = diagnosis._ask

    def ask(training: bool) -> RuntimeFacts:
        if training:
            raise WorkerFailure("crash", "was killed by SIGSEGV", "importing it", "")
        return real(training=False)

    monkeypatch.setattr(diagnosis, "_ask", ask)
    code, found = items()
    assert code == 0
    assert found["training extension"].state == "note"
    assert found["training extension"].detail == (
        "cannot be imported: the child process was killed by SIGSEGV while importing it"
    )


def test_runtime_crashes(items: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(training: bool) -> RuntimeFacts:
        raise WorkerFailure("crash", "was killed by SIGSEGV", "importing torch", "")

    monkeypatch.setattr(diagnosis, "_ask", ask)
    code, found = items()
    assert code == 4
    assert found["runtime"].detail == (
        "the child process was killed by SIGSEGV while importing torch"
    )


def test_registry_differs_from_the_opset(
    items: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = ("mine::op.out", *sorted(load("1.5.1").kernels)[2:])
    monkeypatch.setattr(diagnosis, "_ask", lambda training: RuntimeFacts(kernels=kernels))
    _, found = items()
    assert found["operator set"].state == "note"
    assert found["operator set"].detail.endswith(
        "differs from the registry: 2 not in it, 1 more in it"
    )


def test_cache_cannot_be_written(
    items: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRAPHCHECK_CACHE_DIR", str(tmp_path / "file"))
    code, found = items()
    assert code == 4
    assert found["cache"].state == "MISSING"
    file = tmp_path / "file"
    assert found["cache"].detail == f"the cache folder {file} cannot be written: File exists"
    assert found["cache"].hint == "Set GRAPHCHECK_CACHE_DIR to a folder that you may write to."


def test_the_real_child_answers() -> None:
    pytest.importorskip("executorch")
    from graphcheck.process import run_worker

    facts = run_worker(
        "graphcheck.cli.diagnosis:runtime_facts", {"training": False}, RuntimeFacts, timeout=120
    )
    assert (facts.torch_error, facts.runtime_error) == ("", "")
    assert "aten::add.out" in facts.kernels
