"""GC401: many half-precision terms are a warning with the expected error; few are silent."""

from __future__ import annotations

from typing import Any

import pytest
from advised_graphs import call, check, context, graph, tensor

from graphcheck.advisory.load import all_advisories
from graphcheck.graph.types import OpCall
from graphcheck.rules.dedupe import deduplicate
from graphcheck.rules.gc401_half_accumulation import RULE, expected_error
from graphcheck.rules.types import Severity


def addmm(dtype: str, terms: int | str, **more: Any) -> OpCall:
    return call(
        "aten.addmm",
        "default",
        "aten::addmm.out",
        {
            "self": tensor(dtype, 3),
            "mat1": tensor(dtype, 2, terms),
            "mat2": tensor(dtype, terms, 3),
        },
        tensor(dtype, 2, 3),
        **more,
    )


def index_put(dtype: str, *, accumulate: bool) -> OpCall:
    values = tensor(dtype, 64, 8)
    return call(
        "aten.index_put",
        "default",
        "aten::index_put.out",
        {
            "self": tensor(dtype, 10, 8),
            "indices": [tensor("int64", 64)],
            "values": values,
            "accumulate": accumulate,
        },
        tensor(dtype, 10, 8),
    )


def test_the_expected_error_is_what_was_measured() -> None:
    # 0.71, 0.53 and 0.50 in bf16; 0.024 and 0.012 in f16.
    assert expected_error(2048, "bfloat16") == pytest.approx(0.75)
    assert expected_error(1152, "bfloat16") == pytest.approx(0.556, abs=1e-3)
    assert expected_error(1024, "bfloat16") == pytest.approx(0.5)
    assert expected_error(2048, "float16") == pytest.approx(0.0221, abs=1e-4)
    assert expected_error(1152, "float16") == pytest.approx(0.0166, abs=1e-4)


@pytest.mark.parametrize(("dtype", "error"), [("bfloat16", "0.8"), ("float16", "0.02")])
def test_many_terms_are_a_warning(dtype: str, error: str) -> None:
    (found,) = check(RULE, graph(addmm(dtype, 2048)), context())
    assert found.severity is Severity.WARNING
    assert found.message == (
        f"adds up to 2048 terms in {dtype}: expect a relative error up to {error}"
    )
    assert found.advisory == "GCA-2026-0006"
    assert found.evidence[0] == "GCA-2026-0006, measured here: 2 for 1"


def test_few_terms_and_float32_are_silent() -> None:
    assert check(RULE, graph(addmm("bfloat16", 15)), context()) == []
    assert check(RULE, graph(addmm("float32", 4096)), context()) == []


def test_calls_of_one_op_merge_and_tell_the_worst() -> None:
    calls = [addmm("bfloat16", terms, module=f"l{terms}") for terms in (8, 64, 1024)]
    (found,) = deduplicate(check(RULE, graph(*calls), context()))
    assert found.count == 2
    assert found.modules == ("l64", "l1024")
    assert found.message == ("adds up to 1024 terms in bfloat16: expect a relative error up to 0.5")


def test_a_dynamic_size_is_said() -> None:
    (found,) = check(RULE, graph(addmm("bfloat16", "s0")), context())
    assert found.message.endswith(", more as dynamic sizes grow")


def test_index_put_counts_only_when_it_accumulates() -> None:
    (found,) = check(RULE, graph(index_put("bfloat16", accumulate=True)), context())
    assert found.message.startswith("adds up to 64 terms in bfloat16: ")
    assert check(RULE, graph(index_put("bfloat16", accumulate=False)), context()) == []


def test_a_kernel_measured_right_is_silent() -> None:
    assert check(RULE, graph(addmm("bfloat16", 2048)), context("right")) == []


def test_without_a_probe_the_version_is_the_hint_and_said_to_be() -> None:
    (found,) = check(RULE, graph(addmm("bfloat16", 2048)), context("none"))
    affected = next(a.affected for a in all_advisories() if a.id == "GCA-2026-0006")
    assert found.evidence[0] == (
        "GCA-2026-0006, NOT MEASURED here (its probe did not run): executorch 1.5.1 is in the "
        f"range known to be affected ({affected})"
    )


def test_what_reaches_nothing_is_a_note() -> None:
    (found,) = check(RULE, graph(addmm("bfloat16", 2048, reaches=False)), context())
    assert found.severity is Severity.NOTE
