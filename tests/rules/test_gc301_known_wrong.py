"""GC301: silent without a measurement that says wrong; its severity follows reach."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advised_graphs import call, check, context, graph, tensor

from graphcheck.graph.types import OpCall
from graphcheck.rules.gc301_known_wrong import RULE
from graphcheck.rules.types import Severity

KERNEL = "aten::max_pool2d_with_indices_backward.grad_input"


def max_pool(*, reaches: bool = True) -> OpCall:
    x = tensor("float32", 2, 3, 8, 8)
    return call(
        "aten.max_pool2d_with_indices_backward",
        "default",
        KERNEL,
        {"self": x},
        x,
        reaches=reaches,
        module="pool1",
    )


def dropout(p: float, train: bool | None = True) -> OpCall:
    x = tensor("float32", 2, 3)
    return call(
        "aten.native_dropout",
        "default",
        "aten::native_dropout.out",
        {"input": x, "p": p, "train": train},
        x,
    )


def flip(*, channels_last: bool) -> OpCall:
    x = tensor("float32", 2, 3, 4, 4, channels_last=channels_last)
    return call("aten.flip", "default", "aten::flip.out", {"self": x, "dims": [3]}, x)


def layer_norm(dtype: str, *sizes: int) -> OpCall:
    x = tensor(dtype, 2, *sizes)
    return call(
        "aten.native_layer_norm",
        "default",
        "aten::native_layer_norm.out",
        {"input": x, "normalized_shape": list(sizes)},
        x,
    )


def test_a_kernel_measured_wrong_is_an_error_with_evidence_and_mends() -> None:
    (found,) = check(RULE, graph(max_pool()), context())
    assert (found.code, found.severity) == ("GC301", Severity.ERROR)
    assert found.subject == "aten.max_pool2d_with_indices_backward"
    assert found.message == (
        "adds to memory it does not clear, so the gradients before it hold what was there"
    )
    assert found.evidence[0] == "GCA-2026-0001, measured here: 2 for 1"
    assert found.advisory == "GCA-2026-0001"
    assert found.module == "pool1"
    assert found.gradients == ("a.weight",)
    assert [(m.kind, m.name, m.exact) for m in found.mends] == [
        ("rewrite", "max_pool2d_backward_scatter", True),
    ]


def test_a_wrong_result_that_reaches_nothing_is_a_note() -> None:
    (found,) = check(RULE, graph(max_pool(reaches=False)), context())
    assert found.severity is Severity.NOTE


@pytest.mark.parametrize("reach", [{"reaches_loss": True}, {"buffers": ("b",)}])
def test_a_wrong_result_that_reaches_loss_or_buffers_is_an_error(reach: dict[str, object]) -> None:
    reached = replace(max_pool(reaches=False), **reach)  # type: ignore[arg-type]
    (found,) = check(RULE, graph(reached), context())
    assert found.severity is Severity.ERROR


@pytest.mark.parametrize("outcome", ["right", "not run", "none"])
def test_it_is_silent_unless_measured_wrong(outcome: str) -> None:
    assert check(RULE, graph(max_pool()), context(outcome)) == []


def test_a_probe_of_another_version_proves_nothing() -> None:
    assert check(RULE, graph(max_pool()), context(version="1.4.0")) == []
    assert check(RULE, graph(max_pool()), context(version="1.5.1+cpu")) != []


def test_a_missing_kernel_and_a_kernel_of_the_user_are_left_to_other_rules() -> None:
    assert check(RULE, graph(max_pool()), context(without=frozenset({KERNEL}))) == []
    assert check(RULE, graph(max_pool()), context(own=frozenset({KERNEL}))) == []


def test_dropout_is_wrong_only_where_it_drops() -> None:
    assert [f.advisory for f in check(RULE, graph(dropout(0.5)), context())] == ["GCA-2026-0002"]
    assert len(check(RULE, graph(dropout(0.5, None)), context())) == 1
    assert check(RULE, graph(dropout(0.0)), context()) == []
    assert check(RULE, graph(dropout(0.5, False)), context()) == []


def test_flip_is_wrong_only_for_other_dim_orders() -> None:
    (found,) = check(RULE, graph(flip(channels_last=True)), context())
    assert found.advisory == "GCA-2026-0013"
    assert check(RULE, graph(flip(channels_last=False)), context()) == []


def test_layer_norm_is_wrong_only_for_256_or_more_half_precision_elements() -> None:
    (found,) = check(RULE, graph(layer_norm("bfloat16", 16, 16)), context())
    assert found.message == "reads half-precision numbers as float32 from 256 elements on"
    assert check(RULE, graph(layer_norm("bfloat16", 255)), context()) == []
    assert check(RULE, graph(layer_norm("float32", 768)), context()) == []


def test_an_op_without_advisory_is_silent() -> None:
    x = tensor("float32", 2)
    relu = call("aten.relu", "default", "aten::relu.out", {"self": x}, x)
    assert check(RULE, graph(relu), context()) == []
