"""Calls of one form: what is decided for the kernel of one holds for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graphcheck.graph.types import JointGraph, OpCall, Source, TensorFact

_TENSOR = TensorFact("float32", (2, 3), (3, 1), (0, 1), "x")


def _call(**changes: Any) -> OpCall:
    arguments = {"self": _TENSOR, "dim": [1], "keepdim": True, "dtype": None}
    given: dict[str, Any] = {
        "index": 0,
        "node": "sum_1",
        "op": "aten.sum",
        "overload": "dim_IntList",
        "arguments": arguments,
        "outputs": (_TENSOR,),
        "source": Source(),
        "backward": False,
    }
    return OpCall(**{**given, **changes})


def _graph(*calls: OpCall) -> JointGraph:
    return JointGraph(calls=calls, parameters=(), buffers=(), inputs=(), loss=None)


def test_names_and_places_do_not_part_calls() -> None:
    one = _call()
    other = _call(
        index=5,
        node="sum_2",
        arguments={**one.arguments, "self": replace(_TENSOR, node="y")},
        source=Source(module="fc"),
        gradients=("fc.weight",),
    )
    assert _graph(one, other).alike == ((one, other),)


@pytest.mark.parametrize(
    "changes",
    [
        {"op": "aten.mean"},
        {"overload": "default"},
        {"backward": True},
        {"out_variant": "aten::sum.IntList_out"},
        {"outputs": (_TENSOR, _TENSOR)},
        {"outputs": (replace(_TENSOR, dtype="float64"),)},
        {"arguments": {**_call().arguments, "keepdim": 1}},
        {"arguments": {**_call().arguments, "dim": [1, 0]}},
        {"arguments": {**_call().arguments, "dtype": "None"}},
        {"arguments": {**_call().arguments, "self": replace(_TENSOR, stride=(1, 2))}},
        {"arguments": {**_call().arguments, "self": replace(_TENSOR, dim_order=(1, 0))}},
    ],
    ids=lambda changes: " ".join(changes),
)
def test_all_that_a_condition_can_ask_for_parts_calls(changes: dict[str, object]) -> None:
    one, other = _call(), _call(**changes)
    assert _graph(one, other).alike == ((one,), (other,))


def test_numbers_are_parted_by_their_digits() -> None:
    calls = [_call(arguments={"other": value}) for value in (0.0, -0.0, 0, False, float("nan"))]
    assert [len(group) for group in _graph(*calls, calls[-1]).alike] == [1, 1, 1, 1, 2]
