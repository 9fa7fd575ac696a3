"""GC404: a loss that is NaN or infinite before anything was trained."""

from __future__ import annotations

import pytest
from advised_graphs import call, check, context, graph, tensor

from graphcheck.graph.types import JointGraph, TensorFact
from graphcheck.rules.gc404_loss_not_finite import RULE
from graphcheck.rules.types import Severity

LOSS = TensorFact("float32", (), (), (), "mean")
X = tensor("float32", 2)
START = (
    "on the example data in eager PyTorch itself: there is nothing to train, and nothing to "
    "compare with"
)


def with_loss(value: float, first: str = "log") -> JointGraph:
    log = call("aten.log", "default", "aten::log.out", {"self": X}, X, node="log", module="net")
    facts = {"mean": {"loss": value, "first": first}}
    return graph(log, loss=LOSS, inputs=(("x", X),), example_facts=facts)


@pytest.mark.parametrize("value", [0.0, -3.5, 1e30])
def test_a_finite_loss_is_silent(value: float) -> None:
    assert check(RULE, with_loss(value), context()) == []


def test_a_loss_that_was_not_measured_is_not_judged() -> None:
    assert check(RULE, graph(loss=LOSS), context()) == []
    assert check(RULE, graph(), context()) == []


@pytest.mark.parametrize(
    ("value", "first", "told", "module"),
    [
        (float("nan"), "log", "is nan {}; nan is first made by aten.log on this line", "net"),
        (float("-inf"), "log", "is -inf {}; -inf is first made by aten.log on this line", "net"),
        (float("inf"), "x", "is inf {}; the input x holds inf", "forward"),
        (float("nan"), "p_a", "is nan {}; a weight or buffer holds nan", "forward"),
    ],
)
def test_what_makes_it_is_named(value: float, first: str, told: str, module: str) -> None:
    (found,) = check(RULE, with_loss(value, first), context())
    assert (found.subject, found.severity, found.module) == ("loss", Severity.ERROR, module)
    assert found.message == told.format(START)
    assert found.source.line == (3 if module == "net" else 0)
