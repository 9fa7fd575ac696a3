"""Loading opsets: shipped ones, files, the installed runtime; and what is said of broken files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from graphcheck.errors import DeviceError, UsageError
from graphcheck.opset import load as load_module
from graphcheck.opset.format import LimitFile, dump, read
from graphcheck.opset.load import extend, load
from graphcheck.opset.registry import covers, limits_for, lowering_for, shipped
from graphcheck.opset.types import Opset
from graphcheck.resources import opsets_dir

HEADER = "schema: 1\nruntime: executorch\nversion: '9.9'\nlibrary: lib\nsource: test\n"


def test_the_shipped_opset() -> None:
    opset = load("executorch-1.5.1")
    assert opset == load("1.5.1")
    assert len(opset.kernels) == 240
    assert "aten::convolution_backward.out" in opset.kernels
    assert "aten::avg_pool2d_backward.grad_input" not in opset.kernels
    assert opset.limits


def test_the_file_is_what_dump_writes() -> None:
    path = shipped()["executorch-1.5.1"]
    assert dump(load("1.5.1")) == path.read_text(encoding="utf-8")


def test_installed_names_the_shipped_opset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "installed_version", lambda: "1.5.1+cpu")
    assert load("installed") == load("1.5.1")


def test_installed_version_without_a_shipped_opset(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    live = Opset("executorch", "1.5.9", "lib", frozenset(["aten::add.out"]), source="test")
    calls = []

    def generate_live() -> Opset:
        calls.append(1)
        return live

    monkeypatch.setattr(load_module, "installed_version", lambda: "1.5.9")
    monkeypatch.setattr("graphcheck.opset.generate.live.generate_live", generate_live)
    monkeypatch.setattr("graphcheck.runtime.libraries.build_id", lambda: "abc")
    monkeypatch.setenv("GRAPHCHECK_CACHE_DIR", str(tmp_path))
    first, second = load("installed"), load("installed")
    assert calls == [1], "the second load reads the cache"
    assert first == second
    assert first.kernels == {"aten::add.out"}
    assert first.limits == limits_for("executorch", "1.5.9") != ()
    assert first.note == (
        "No opset is shipped for executorch 1.5.9: the kernels were read from the installed "
        "runtime, and what they refuse is not known in every case."
    )
    (cached,) = (tmp_path / "opsets").iterdir()
    cached.write_text("broken: [")
    assert load("installed") == first, "a broken cache is made anew"
    assert calls == [1, 1]


def test_without_executorch(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(DeviceError) as caught:
        load("installed")
    assert caught.value.message == (
        "The package executorch is not installed, so its kernels are not known."
    )


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError) as caught:
        load("executorch-0.1")
    assert caught.value.message == (
        "There is no opset of executorch 0.1. The nearest known one is 0.6.0."
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            HEADER + "kernels: [1]\n",
            "has a wrong form: Expected `str`, got `int` - at `$.kernels[0]`",
        ),
        (
            HEADER + "kernels: []\nkernel: []\n",
            "has a wrong form: Object contains unknown field `kernel`",
        ),
        (HEADER, "has a wrong form: Object missing required field `kernels`"),
        ("schema: [", "is not valid YAML: "),
        (
            HEADER.replace("schema: 1", "schema: 2") + "kernels: []\n",
            "has schema 2, but this graphcheck reads schema 1",
        ),
    ],
)
def test_a_broken_file(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(str(path))
    assert caught.value.message.startswith(f"{path} {problem}")


def test_dump_does_not_depend_on_order_and_reads_back(tmp_path: Path) -> None:
    names = ["aten::b.out", "aten::a.out", "mine::x"]
    one, two = (
        Opset("executorch", "9.9", "a 'quoted': lib", frozenset(order), source='from "x"')
        for order in (names, names[::-1])
    )
    assert dump(one) == dump(two)
    path = tmp_path / "mine.yaml"
    path.write_text(dump(one))
    assert load(str(path)) == one
    assert yaml.safe_load(dump(one))["kernels"] == sorted(names)
    empty = Opset("executorch", "9.9", "lib", frozenset(), source="nothing")
    assert yaml.safe_load(dump(empty))["kernels"] == []


def test_extend() -> None:
    opset = load("1.5.1")
    own = extend(extend(opset, ["mine::a.out"]), ["aten::b.out"])
    assert own.extra == {"mine::a.out", "aten::b.out"}
    assert own.kernels == opset.kernels
    with pytest.raises(UsageError) as caught:
        extend(opset, ["add.out"])
    assert caught.value.message == (
        "'add.out' is no registry name of a kernel; one looks like `aten::add.out`."
    )


def test_versions() -> None:
    assert covers(">=1.5,<1.6", "1.5.1+cpu", "x")
    assert covers(">=1.5,<1.6", "1.5.2rc1", "x")
    assert not covers(">=1.5,<1.6", "1.6.0", "x")
    assert not covers(">=1.5,<1.6", "unknown", "x")
    with pytest.raises(UsageError, match="x: versions: 'one' is no version range"):
        covers("one", "1.5", "x")
    assert limits_for("executorch", "0.5.0") == ()
    assert limits_for("another", "1.5.1") == ()
    # An unknown version is lowered as the newest known one.
    assert lowering_for("executorch", "9.9") == lowering_for("executorch", "1.5.1")


LIMITS = """
schema: 1
runtime: executorch
versions: ">=1"
groups: {some: ["aten::a.out", "aten::b.out"]}
limits:
- id: one
  kernels: [some, "aten::c.out"]
  rule: GC201
  when: {backward: true}
  reason: because
  evidence: measured
"""


def _limits(tmp_path: Path, text: str) -> tuple[Path, LimitFile]:
    path = tmp_path / "limits.yaml"
    path.write_text(text)
    return path, read(path, LimitFile)


def test_groups_of_limits(tmp_path: Path) -> None:
    _, content = _limits(tmp_path, LIMITS)
    found = content.expand("here")
    assert [limit.kernel for limit in found] == ["aten::a.out", "aten::b.out", "aten::c.out"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[some,", "[none,", "limit one: kernels: there is no group 'none'."),
        ("GC201", "GC301", "limit one: rule: a GC2 code is needed, not 'GC301'."),
        ("{backward: true}", "{x: 1}", "limit one: when: unknown key 'x' in a condition."),
    ],
)
def test_broken_limits_name_file_and_entry(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    path, content = _limits(tmp_path, LIMITS.replace(old, new))
    with pytest.raises(UsageError) as caught:
        content.expand(str(path))
    assert caught.value.message == f"{path}: {problem}"


def test_an_id_is_used_once(tmp_path: Path) -> None:
    entry = LIMITS.partition("limits:\n")[2]
    path, content = _limits(tmp_path, LIMITS + entry)
    with pytest.raises(UsageError, match="limit one: the id is used twice"):
        content.expand(str(path))


def test_every_shipped_file_is_in_form() -> None:
    for path in (opsets_dir() / "limits").glob("*.yaml"):
        read(path, LimitFile).expand(str(path))
    assert lowering_for("executorch", "1.5.1").exempt
