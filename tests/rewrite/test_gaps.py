"""Findings that stop an export say so, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphcheck.graph.types import JointGraph, OpCall, Source
from graphcheck.rewrite.gaps import is_gap, with_gaps
from graphcheck.rules.types import Finding, Mend, Severity


def graph(op: str, origin: str, *, backward: bool = True) -> JointGraph:
    name, _, overload = op.rpartition(".")
    call = OpCall(0, "n", name, overload, {}, (), Source(), backward, origin=origin)
    return JointGraph((call,), (), (), (), None)


FOUND = Finding(
    "GC101", Severity.ERROR, "aten.x", "has no kernel", backward=True, nodes=("n",), mends=()
)
DET = graph("aten.linalg_lu_solve.default", "aten.linalg_det.default")


def gap(finding: Finding, joint: JointGraph) -> bool:
    (told,) = with_gaps([finding], joint)
    return is_gap(told)


def test_an_op_without_rewrite_says_what_there_is_to_do() -> None:
    (told,) = with_gaps([FOUND], DET)
    (mend,) = told.mends
    assert (mend.kind, mend.name, mend.exact) == ("edit", "by hand", False)
    assert mend.description == (
        "no rewrite covers it, so export refuses the model: use other ops here, freeze what is "
        "trained before it or give a kernel of your own with --kernel-library"
    )
    swap = Mend("swap", "group-norm", "what", False)
    (told,) = with_gaps([replace(FOUND, mends=(swap,), backward=False)], DET)
    assert told.mends[0] == swap
    assert told.mends[1].description.endswith(
        ": swap the module or give a kernel of your own with --kernel-library"
    )


@pytest.mark.parametrize(
    "finding",
    [
        replace(FOUND, mends=(Mend("rewrite", "name", "what", True),)),
        replace(FOUND, mends=(Mend("layout", "name", "what", True),)),
        replace(FOUND, severity=Severity.NOTE),
        replace(FOUND, code="GC401"),
        replace(FOUND, code="GC503", nodes=()),
    ],
)
def test_what_stops_no_export_says_nothing(finding: Finding) -> None:
    assert not gap(finding, DET)


def test_an_op_that_comes_from_one_with_a_rewrite_is_covered() -> None:
    """A forward rewrite takes the gradient with it."""
    assert not gap(FOUND, graph("aten.some_backward.default", "aten.cumprod.default"))
    assert gap(FOUND, graph("aten.some_backward.default", "aten.sin.default"))


def test_calls_of_a_program_have_no_origin_and_are_not_judged() -> None:
    assert not gap(FOUND, graph("aten.some_backward.default", ""))


def test_arguments_that_a_kernel_refuses_are_left_to_the_rewrite() -> None:
    refused = replace(FOUND, code="GC204")
    assert not gap(refused, graph("aten._log_softmax.default", "aten.log_softmax.int"))
    assert gap(refused, DET)
