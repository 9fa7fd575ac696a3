"""The number of terms a call adds up, read off its shapes."""

from __future__ import annotations

from typing import Any

import pytest

from graphcheck.advisory.terms import count_terms, in_bounds
from graphcheck.graph.types import OpCall, Source, TensorFact


def call(**arguments: Any) -> OpCall:
    return OpCall(0, "n", "aten.x", "default", arguments, (), Source(), False)


def tensor(*shape: int | str) -> TensorFact:
    return TensorFact("bfloat16", shape, shape, tuple(range(len(shape))))


@pytest.mark.parametrize(
    ("reduction", "arguments", "expected"),
    [
        ({"of": "a", "dims": [1]}, {"a": tensor(3, 5)}, (5, True)),
        ({"of": "a", "dims": [-2]}, {"a": tensor(3, 5)}, (3, True)),
        ({"of": "a", "dims_from": 1}, {"a": tensor(8, 3, 2, 2)}, (12, True)),
        ({"of": "a", "dims_except": [1]}, {"a": tensor(2, 9, 4, 4)}, (32, True)),
        ({"of": "a", "dims_argument": "dim"}, {"a": tensor(2, 9), "dim": -1}, (9, True)),
        ({"of": "a", "dims_argument": "dim"}, {"a": tensor(2, 9), "dim": [0, 1]}, (18, True)),
        ({"of": "a", "dims_argument": "dim"}, {"a": tensor(2, 9), "dim": None}, (18, True)),
        ({"of_indices": "i"}, {"i": [None, tensor(4, 6), tensor(1)]}, (24, True)),
        ({"product_of": "k"}, {"k": [3, 2]}, (6, True)),
        ({"of": "a", "dims_from": 0}, {"a": tensor("s0", 5)}, (5, False)),
        ({"of": "a", "dims": [1]}, {"a": None}, (1, False)),
        ({"of": "a", "dims": [1]}, {}, (1, False)),
        ({"product_of": "k"}, {"k": None}, (1, False)),
        ({"of_indices": "i"}, {"i": [None]}, (1, False)),
    ],
)
def test_terms(
    reduction: dict[str, Any], arguments: dict[str, Any], expected: tuple[int, bool]
) -> None:
    assert count_terms(reduction, call(**arguments)) == expected


def test_bounds_hold_only_for_what_is_certain() -> None:
    below = {"product_of": "k", "below": 256}
    assert in_bounds(below, call(k=[255]))
    assert not in_bounds(below, call(k=[256]))
    assert not in_bounds(below, call(k=["s0"]))
    least = {"product_of": "k", "min": 256}
    assert in_bounds(least, call(k=[256]))
    assert in_bounds(least, call(k=[256, "s0"]))
    assert not in_bounds(least, call(k=[255]))
    assert in_bounds(None, call())
    assert in_bounds({"product_of": "k"}, call())
