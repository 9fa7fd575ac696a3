"""GC302: what was not measured is visible, as far as the version makes it likely."""

from __future__ import annotations

import pytest
from advised_graphs import call, check, context, graph, tensor
from test_gc301_known_wrong import KERNEL, max_pool

from graphcheck.rules.gc302_not_measured import RULE
from graphcheck.rules.types import Severity


def test_a_version_in_range_without_a_probe_is_a_warning() -> None:
    answers = context("not run", detail="its process was killed by SIGSEGV")
    (found,) = check(RULE, graph(max_pool()), answers)
    assert found.severity is Severity.WARNING
    assert found.message == (
        "was NOT CHECKED: by its version it adds to memory it does not clear, so the gradients "
        "before it hold what was there"
    )
    assert found.evidence[0] == (
        "GCA-2026-0001, NOT MEASURED here (its process was killed by SIGSEGV): executorch 1.5.1 is "
        "in the range known to be affected (>=0.6.0,<=1.5.1)"
    )


def test_without_any_answer_it_says_so() -> None:
    (found,) = check(RULE, graph(max_pool()), context("none"))
    assert found.evidence[0].startswith(
        "GCA-2026-0001, NOT MEASURED here (its probe did not run): "
    )


@pytest.mark.parametrize("outcome", ["wrong", "right"])
def test_a_measured_kernel_is_left_to_gc301(outcome: str) -> None:
    assert check(RULE, graph(max_pool()), context(outcome)) == []


def test_an_opset_of_another_version_is_told_by_its_version() -> None:
    (found,) = check(RULE, graph(max_pool()), context("right", version="1.4.0"))
    assert found.severity is Severity.WARNING
    assert "(the installed runtime, which probes run on, is 1.5.1)" in found.evidence[0]


def test_an_unknown_version_is_a_note() -> None:
    (found,) = check(RULE, graph(max_pool()), context(version="1.7.0"))
    assert found.severity is Severity.NOTE
    assert found.message.startswith("was NOT CHECKED: in other versions it adds to memory")
    assert found.evidence[0].endswith(
        "affected is >=0.6.0,<=1.5.1, nothing is known of executorch 1.7.0"
    )


def test_what_reaches_nothing_is_a_note() -> None:
    (found,) = check(RULE, graph(max_pool(reaches=False)), context("none"))
    assert found.severity is Severity.NOTE


def test_a_kernel_of_the_user_is_a_note_without_mends() -> None:
    (found,) = check(RULE, graph(max_pool()), context(own=frozenset({KERNEL})))
    assert (found.severity, found.mends) == (Severity.NOTE, ())
    assert found.message == (
        "was NOT CHECKED: it runs in your own kernel library, which graphcheck does not know"
    )


def test_an_op_without_advisory_is_silent() -> None:
    x = tensor("float32", 2)
    relu = call("aten.relu", "default", "aten::relu.out", {"self": x}, x)
    assert check(RULE, graph(relu), context("none")) == []
