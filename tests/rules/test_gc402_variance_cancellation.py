"""GC402: goes by the example data; ordinary data are silent."""

from __future__ import annotations

from typing import Any

import pytest
from advised_graphs import call, check, context, graph, tensor

from graphcheck.graph.types import OpCall
from graphcheck.rules.gc402_variance_cancellation import RULE, expected_error
from graphcheck.rules.types import Severity


def layer_norm(size: int = 64, dtype: str = "float32", *, reaches: bool = True) -> OpCall:
    x = tensor(dtype, 2, size)
    return call(
        "aten.native_layer_norm",
        "default",
        "aten::native_layer_norm.out",
        {"input": x, "normalized_shape": [size]},
        x,
        node="norm",
        reaches=reaches,
    )


def facts(ratio: float, elements: int = 64) -> dict[str, Any]:
    return {"norm": {"elements": elements, "mean": ratio, "std": 1.0, "ratio": ratio}}


@pytest.mark.parametrize("ratio", [0.0, 1.0, 10.0, 40.0])
def test_ordinary_data_are_silent(ratio: float) -> None:
    assert check(RULE, graph(layer_norm(), example_facts=facts(ratio)), context()) == []


@pytest.mark.parametrize(
    ("ratio", "severity"),
    [
        (60.0, Severity.WARNING),
        (200.0, Severity.WARNING),
        (300.0, Severity.ERROR),
        (float("nan"), Severity.ERROR),
    ],
)
def test_a_large_mean_is_told_by_how_much_it_spoils(ratio: float, severity: Severity) -> None:
    (found,) = check(RULE, graph(layer_norm(), example_facts=facts(ratio)), context())
    assert found.severity is severity
    assert found.message == (
        "computes the variance as E[x2]-E[x]2 in float32, and the example data have a large mean"
    )


def test_the_evidence_names_the_group() -> None:
    (found,) = check(RULE, graph(layer_norm(), example_facts=facts(1000.0)), context())
    assert found.evidence[:2] == (
        "example data: a group of 64 with mean 1000, standard deviation 1: expect a relative error "
        "of about 1e-01 in the variance",
        "GCA-2026-0004, measured here: 2 for 1",
    )
    assert found.mends[0].name == "layer_norm_stable"


def test_the_expected_error_is_what_was_measured() -> None:
    # Output errors of LayerNorm over 64 elements: 1.5e-4, 2.2e-3 and 1.5e-2.
    for ratio, measured in ((34.2, 1.5e-4), (119.3, 2.2e-3), (372.7, 1.5e-2)):
        assert measured / 2 < expected_error(ratio) < measured * 2


def test_groups_of_two_are_always_a_warning() -> None:
    (found,) = check(RULE, graph(layer_norm(2), example_facts=facts(3.0, elements=2)), context())
    assert found.severity is Severity.WARNING
    assert found.message == (
        "computes the variance of 2 elements as E[x2]-E[x]2: whenever the two are nearly equal, "
        "most digits are lost"
    )


def test_sizes_and_types_that_another_way_computes_are_silent() -> None:
    far = facts(1000.0)
    assert check(RULE, graph(layer_norm(256), example_facts=far), context()) == []
    assert check(RULE, graph(layer_norm(64, "bfloat16"), example_facts=far), context()) == []


def test_no_example_data_is_a_visible_note() -> None:
    (found,) = check(RULE, graph(layer_norm()), context())
    assert found.severity is Severity.NOTE
    assert found.message == (
        "computes the variance as E[x2]-E[x]2, and whether a large mean spoils it was NOT "
        "CHECKED: there are no example data to measure"
    )


def test_a_kernel_measured_right_is_silent() -> None:
    assert check(RULE, graph(layer_norm(), example_facts=facts(1000.0)), context("right")) == []
    assert check(RULE, graph(layer_norm()), context("right")) == []


def test_what_reaches_nothing_is_a_note() -> None:
    far = graph(layer_norm(reaches=False), example_facts=facts(1000.0))
    (found,) = check(RULE, far, context())
    assert found.severity is Severity.NOTE
