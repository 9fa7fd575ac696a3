"""Merging findings and module patterns."""

from __future__ import annotations

import pytest

from graphcheck.graph.types import Source
from graphcheck.rules.dedupe import deduplicate, module_pattern
from graphcheck.rules.types import Finding, Severity


def finding(module: str, line: int, message: str = "wrong", **more: object) -> Finding:
    values: dict[str, object] = {"evidence": (f"seen at {module}",), **more}
    return Finding(
        "GC301",
        Severity.ERROR,
        "aten.op",
        message,
        Source(module=module, file="m.py", line=line),
        **values,  # type: ignore[arg-type]
    )


def test_equal_findings_become_one_with_count_places_and_first_line() -> None:
    (merged,) = deduplicate([finding("b", 9), finding("a", 4), finding("b", 9)])
    assert merged.count == 3
    assert merged.modules == ("a", "b")
    assert merged.source.line == 4
    assert [place.line for place in merged.places] == [4, 9]
    assert merged.evidence == ("seen at a", "seen at b")


def test_different_messages_stay_apart_and_are_sorted_by_place() -> None:
    first, second = deduplicate([finding("b", 9, "x"), finding("a", 4, "y")])
    assert (first.source.line, second.source.line) == (4, 9)


def test_worse_comes_first() -> None:
    note = Finding("GC101", Severity.NOTE, "a", "m")
    assert [f.severity for f in deduplicate([note, finding("a", 1)])] == [
        Severity.ERROR,
        Severity.NOTE,
    ]


@pytest.mark.parametrize(
    ("modules", "pattern"),
    [
        (["pool"], "pool"),
        (["pool1", "pool2"], "pool1, pool2"),
        ([f"encoder.layers.{i}.pool" for i in range(12)], "encoder.layers.*.pool"),
        (
            ["bn1", "layer1.0.bn1", "layer1.1.bn2", "layer2.0.bn1", "layer2.0.downsample.1"],
            "bn1, layer*.*.bn*, layer2.0.downsample.1",
        ),
        ([], ""),
    ],
)
def test_module_pattern(modules: list[str], pattern: str) -> None:
    assert module_pattern(modules) == pattern
