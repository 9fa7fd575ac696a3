"""GC403: wide sums over one dim are notes, a warning in a model that trains in float64."""

from __future__ import annotations

from typing import Any

from advised_graphs import call, check, context, graph, tensor

from graphcheck.graph.types import OpCall
from graphcheck.rules.gc403_wide_sum import RULE
from graphcheck.rules.types import Severity


def total(dtype: str, dims: list[int]) -> OpCall:
    return call(
        "aten.sum",
        "dim_IntList",
        "aten::sum.IntList_out",
        {"self": tensor(dtype, 3, 4), "dim": dims},
        tensor(dtype, 3),
    )


def messages(*calls: OpCall, outcome: str = "wrong", **parts: Any) -> list[str]:
    found = check(RULE, graph(*calls, **parts), context(outcome))
    assert all(finding.severity is Severity.NOTE for finding in found)
    return [finding.message for finding in found]


def test_int64_and_float64_over_one_dim() -> None:
    assert messages(total("int64", [1]), total("float64", [-1])) == [
        "adds up int64 in float32 over one dim: sums above 16777216 are inexact",
        "adds up float64 in float32 over one dim: seven digits are left",
    ]


def test_other_sums_are_silent() -> None:
    assert messages(total("int64", [0, 1]), total("float32", [1]), total("int64", [])) == []


def test_a_kernel_measured_right_is_silent() -> None:
    assert messages(total("int64", [1]), outcome="right") == []


def test_a_float64_loss_is_a_note_of_its_own() -> None:
    assert messages(loss=tensor("float64")) == [
        "does not mean float64 precision: parts of the program work with float32's digits"
    ]
    assert messages(loss=tensor("float32")) == []


def test_a_model_in_float64_is_warned() -> None:
    calls = (total("int64", [1]), total("float64", [1]))
    found = check(RULE, graph(*calls, loss=tensor("float64")), context("wrong"))
    assert [(finding.subject, finding.severity) for finding in found] == [
        ("aten.sum", Severity.NOTE),
        ("aten.sum", Severity.WARNING),
        ("float64 loss", Severity.NOTE),
    ]
    found = check(RULE, graph(*calls, loss=tensor("float32")), context("wrong"))
    assert {finding.severity for finding in found} == {Severity.NOTE}
