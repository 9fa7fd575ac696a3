"""The language of conditions: red and green for every key, and its errors."""

from __future__ import annotations

from typing import Any

import pytest

from graphcheck.errors import UsageError
from graphcheck.graph.types import OpCall, Source, TensorFact
from graphcheck.opset.conditions import dim_order_kind, is_undecided, matches, validate

F4 = TensorFact("float32", (2, 3, 6, 7), (126, 42, 7, 1), (0, 1, 2, 3))
CL = TensorFact("float32", (2, 3, 6, 7), (126, 1, 21, 3), (0, 2, 3, 1))
B3 = TensorFact("bfloat16", (3, 6, 7), (42, 7, 1), (0, 1, 2))
DYN = TensorFact("float32", ("s0", 3), (3, 1), ())


def call(**arguments: Any) -> OpCall:
    return OpCall(
        index=0,
        node="n",
        op="aten.convolution",
        overload="default",
        arguments=arguments,
        outputs=(F4,),
        source=Source(),
        backward=False,
    )


CALL = call(
    input=CL,
    weight=B3,
    bias=None,
    pad=[1, -1],
    stride=(2, 2),
    flag=True,
    tensors=[F4, None, DYN],
    scaled=[F4, DYN],
    scale=0.5,
    tenth=0.1,
    vast=10**60,
    mode="sum",
)

TRUE = [
    {},
    {"op": "aten.convolution", "overload": ["default", "out"], "backward": False},
    {"op": ["aten.add", "aten.convolution"]},
    {"argument": {"weight": {"rank": 3}}},
    {"argument": {"weight": {"rank": [1, 3]}}},
    {"argument": {"weight": {"rank": {"min": 3, "max": 3}}}},
    {"argument": {"weight": {"dtype": ["float16", "bfloat16"]}}},
    {"argument": {"bias": {"is_none": True}}},
    {"argument": {"bias": {"is_tensor": False}, "weight": {"is_tensor": True}}},
    {"argument": {"scale": {"float32_exact": True}}},
    {"argument": {"tenth": {"float32_exact": False}, "vast": {"float32_exact": False}}},
    {"argument": {"flag": {"equals": True}}},
    {"argument": {"stride": {"equals": [2, 2]}}},
    {"argument": {"mode": {"one_of": ["sum", "mean"]}}},
    {"argument": {"pad": {"any": {"value": {"below": 0}}}}},
    {"argument": {"pad": {"length": 2}}},
    {"argument": {"stride": {"every": {"value": {"above": 1}}}}},
    {"argument": {"scale": {"value": {"min": 0.5, "below": 1}}}},
    {"argument": {"input": {"dim_order": "channels_last"}}},
    {"argument": {"input": {"size": {1: 3, -1: 7}}}},
    {"argument": {"input": {"numel": 252}}},
    {"argument": {"weight": {"not": {"rank": 4}}}},
    {"argument": {"weight": {"any_of": [{"rank": 4}, {"dtype": "bfloat16"}]}}},
    {"argument": {"weight": {"all_of": [{"rank": 3}, {"dtype": "bfloat16"}]}}},
    {"output": {0: {"rank": 4}}},
    {"any_argument": {"dtype": "bfloat16"}},
    {"every_argument": {"rank": {"max": 4}}},
    {"any_output": {"dtype": "float32"}},
    {"every_output": {"dim_order": "contiguous"}},
    {"any_tensor": {"rank": 3}},
    {"every_tensor": {"dtype": ["float32", "bfloat16"]}},
    {"all_of": [{"backward": False}, {"op": "aten.convolution"}]},
    {"any_of": [{"backward": True}, {"op": "aten.convolution"}]},
    {"not": {"backward": True}},
    {"different": {"of": "dtype", "among": "arguments"}},
    {"different": {"of": "dim_order", "among": ["input", "out"]}},
    {"different": {"of": "rank", "among": "all"}},
    {"different": {"of": "layout", "among": ["input", "weight"]}},
    {"not": {"different": {"of": "shape", "among": ["input", "bias", "out.0"]}}},
]
FALSE = [
    {"op": "aten.add"},
    {"backward": True},
    {"argument": {"weight": {"rank": 4}}},
    {"argument": {"flag": {"equals": 1}}},
    {"argument": {"scale": {"float32_exact": False}}},
    {"argument": {"flag": {"equals": False}}},
    {"argument": {"pad": {"every": {"value": {"min": 0}}}}},
    {"argument": {"stride": {"any": {"value": {"below": 0}}}}},
    {"argument": {"input": {"dim_order": ["contiguous", "other"]}}},
    {"argument": {"bias": {"is_none": False}}},
    {"not": {"any_tensor": {"dtype": "bfloat16"}}},
    {"different": {"of": "numel", "among": ["input", "out"]}},
    {"different": {"of": "layout", "among": ["weight", "out"]}},
    {"any_of": [{"backward": True}, {"op": "aten.add"}]},
]
UNDECIDED = [
    {"argument": {"absent": {"rank": 4}}},
    {"not": {"argument": {"absent": {"rank": 4}}}},
    {"output": {3: {"rank": 4}}},
    {"argument": {"mode": {"value": {"above": 1}}}},
    {"argument": {"scale": {"rank": 1}}},
    {"argument": {"flag": {"value": 1}}},
    {"argument": {"weight": {"float32_exact": False}}},
    {"argument": {"tensors": {"any": {"numel": {"below": 1}}}}},
    {"argument": {"tensors": {"any": {"dim_order": "other"}}}},
    {"argument": {"tensors": {"any": {"size": {0: {"min": 9}}}}}},
    {"different": {"of": "numel", "among": ["scaled"]}},
]


@pytest.mark.parametrize("when", TRUE, ids=str)
def test_holds(when: dict[str, Any]) -> None:
    validate(when, "test")
    assert matches(when, CALL)
    assert not matches({"not": when}, CALL)


@pytest.mark.parametrize("when", FALSE, ids=str)
def test_does_not_hold(when: dict[str, Any]) -> None:
    validate(when, "test")
    assert not matches(when, CALL)
    assert matches({"not": when}, CALL)


@pytest.mark.parametrize("when", UNDECIDED, ids=str)
def test_undecided_is_never_a_match(when: dict[str, Any]) -> None:
    validate(when, "test")
    assert is_undecided(when, CALL)
    assert not matches(when, CALL)
    assert is_undecided({"not": when}, CALL)


def test_no_condition_holds_for_every_call() -> None:
    assert matches(None, CALL)


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ({"ranks": 4}, "when: unknown key 'ranks' in a condition"),
        ({"argument": {"x": {"rnk": 4}}}, "when.argument.x: unknown key 'rnk' in a test"),
        ({"argument": {"x": {"rank": "4"}}}, "when.argument.x.rank: a number is needed, not '4'"),
        (
            {"argument": {"x": {"rank": {"least": 4}}}},
            "when.argument.x.rank: the bounds are min, max, above, below, not ['least']",
        ),
        ({"all_of": []}, "when.all_of: a list that is not empty is needed, not []"),
        ({"any_of": [{"nott": {}}]}, "when.any_of[0]: unknown key 'nott' in a condition"),
        ({"backward": "yes"}, "when.backward: true or false is needed, not 'yes'"),
        ({"output": {"first": {}}}, "when.output: an output is named by its number, not 'first'"),
        (
            {"different": {"of": "size", "among": "all"}},
            "when.different: 'of' is one of dtype, rank, shape, numel, dim_order, layout, "
            "not 'size'",
        ),
        (
            {"different": {"of": "rank", "among": "inputs"}},
            "when.different: 'among' is arguments, outputs, all or a list, not 'inputs'",
        ),
        ("rank", "when: a mapping is needed, not 'rank'"),
    ],
)
def test_form_errors_name_file_and_key(when: Any, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        validate(when, "limits/x.yaml: limit L1")
    assert caught.value.message == f"limits/x.yaml: limit L1: {problem}."


def test_unknown_keys_are_not_ignored_without_validation() -> None:
    with pytest.raises(UsageError, match="unknown key 'rnk'"):
        matches({"argument": {"input": {"rnk": 4}}}, CALL)
    with pytest.raises(UsageError, match="unknown key 'inputs'"):
        matches({"inputs": {}}, CALL)


def test_dim_order_kind() -> None:
    assert dim_order_kind(F4) == "contiguous"
    assert dim_order_kind(CL) == "channels_last"
    assert dim_order_kind(DYN) is None
    assert dim_order_kind(TensorFact("float32", (), (), ())) == "contiguous"
    assert dim_order_kind(TensorFact("float32", (2, 3), (1, 2), (1, 0))) == "other"
    # 0, 2, 1 would be channels-last, had the tensor 4 or 5 dimensions.
    assert dim_order_kind(TensorFact("float32", (2, 3, 4), (12, 1, 3), (0, 2, 1))) == "other"
