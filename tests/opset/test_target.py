"""Targets: a release, its build, a file; and what is said of those that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphcheck.errors import UsageError
from graphcheck.opset.load import load
from graphcheck.opset.registry import shipped
from graphcheck.opset.target import Target, nearest, parse_target

RELEASES = ("0.6.0", "0.7.0", "1.0.1", "1.1.0", "1.2.0", "1.3.1", "1.4.1", "1.5.1")


def test_eight_releases_are_shipped_in_order() -> None:
    assert tuple(shipped()) == tuple(f"executorch-{version}" for version in RELEASES)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("executorch==1.3.1", Target("executorch-1.3.1")),
        ("ExecuTorch == 1.3.1", Target("executorch-1.3.1")),
        ("executorch==1.5.1+cpu:portable", Target("executorch-1.5.1", ("portable",))),
        ("executorch-0.7.0", Target("executorch-0.7.0")),
        ("0.7.0:quantized+portable", Target("0.7.0", ("portable", "quantized"))),
        ("1.5.1+cpu", Target("1.5.1")),
        ("installed:portable", Target("installed", ("portable",))),
        ("live", Target("live")),
    ],
)
def test_what_a_target_names(text: str, target: Target) -> None:
    found = parse_target(text)
    assert found.build == target.build
    assert found.name.removeprefix("executorch-") == target.name.removeprefix("executorch-")


_HINT = (
    "`graphcheck opset list` lists those known, `graphcheck opset generate` makes one from a wheel "
    "or a source tree."
)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "executorch==1.3.2",
            "There is no opset of executorch 1.3.2. The nearest known ones are 1.3.1 and 1.4.1.",
            _HINT,
        ),
        (
            "executorch==2.0:portable",
            "There is no opset of executorch 2.0. The nearest known one is 1.5.1.",
            _HINT,
        ),
        (
            "executorch==next",
            "There is no opset of executorch next. The nearest known one is 1.5.1.",
            _HINT,
        ),
        (
            "executorch>=1.3",
            "The target 'executorch>=1.3' is a range of versions: name one, such as "
            "executorch==1.3.1.",
            _HINT,
        ),
        (
            "tflite==1.0",
            "There is no opset of a runtime 'tflite': known are those of executorch.",
            _HINT,
        ),
        (
            "1.3.1:portabel",
            "The target '1.3.1:portabel' names a kernel library 'portabel', which is none.",
            "Choose portable, optimized or quantized; join two with +.",
        ),
        (
            "1.3.1:portable+optimized",
            "The target '1.3.1:portable+optimized' names both portable and optimized, of which a "
            "build has one.",
            "The optimized library brings the portable kernels for all it has none of.",
        ),
    ],
)
def test_targets_that_are_none(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_nearest_on_both_sides() -> None:
    assert nearest("0.1", RELEASES) == ("0.6.0",)
    assert nearest("1.0.0", RELEASES) == ("0.7.0", "1.0.1")


def test_builds_have_their_kernels() -> None:
    usual, portable = load("1.3.1"), load("1.3.1:portable")
    assert "aten::linear.out" in usual.kernels
    assert usual.kernels - portable.kernels == usual.optimized_only
    assert "aten::linear.out" in usual.optimized_only
    assert (portable.portable, usual.portable) == (True, False)
    assert portable.library == "portable kernels"
    both = load("1.3.1:portable+quantized")
    assert both.kernels == portable.kernels | usual.quantized
    assert both.library == "portable and quantized kernels"
    optimized = load("1.3.1:optimized")
    assert (optimized.kernels, optimized.library) == (usual.kernels, "optimized kernels")


def test_a_file_is_a_target(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(shipped()["executorch-1.3.1"].read_text())
    assert load(str(path)).kernels == load("1.3.1").kernels
    assert load(f"{path}:portable").kernels == load("1.3.1:portable").kernels
    bare = tmp_path / "bare.yaml"
    bare.write_text(
        "schema: 1\nruntime: executorch\nversion: '9.9'\nlibrary: lib\nsource: test\n"
        "kernels: ['aten::add.out']\n"
    )
    with pytest.raises(UsageError) as caught:
        load(f"{bare}:portable")
    assert caught.value.message == (
        "The opset of executorch 9.9 from test does not tell which kernels are portable."
    )
