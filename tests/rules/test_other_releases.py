"""Advisories on targets that are not the installed runtime: what was measured there, what not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advised_graphs import call, check, context, graph, tensor
from test_gc301_known_wrong import max_pool
from test_gc401_half_accumulation import addmm
from test_gc402_variance_cancellation import facts, layer_norm
from test_gc403_wide_sum import total

from graphcheck.advisory.load import advisory_by_id
from graphcheck.advisory.types import Advisory
from graphcheck.opset import load as load_module
from graphcheck.opset.load import elsewhere, load
from graphcheck.opset.types import Opset
from graphcheck.rules import (
    gc301_known_wrong,
    gc302_not_measured,
    gc401_half_accumulation,
    gc402_variance_cancellation,
    gc403_wide_sum,
)
from graphcheck.rules.dedupe import deduplicate
from graphcheck.rules.interface import Context
from graphcheck.rules.types import Severity
from graphcheck.rules.wrong import standing


def advisory(name: str) -> Advisory:
    found = advisory_by_id(name)
    assert found is not None
    return found


def on(version: str, outcome: str = "wrong", build: str = "") -> Context:
    """Probes answered on 1.5.1; the target is another release."""
    given = context(outcome)
    return replace(given, opset=load(f"{version}{build}"))


def test_a_release_that_was_measured_is_an_error() -> None:
    (found,) = check(gc301_known_wrong.RULE, graph(max_pool()), on("1.3.1", "right"))
    assert found.severity is Severity.ERROR
    assert found.evidence[0] == (
        "GCA-2026-0001, measured on executorch 1.3.1 for this advisory, NOT on this machine"
    )
    assert check(gc302_not_measured.RULE, graph(max_pool()), on("1.3.1", "right")) == []


def test_a_release_that_was_not_measured_is_a_warning() -> None:
    unseen = context("right", version="1.4.0")
    (found,) = check(gc302_not_measured.RULE, graph(max_pool()), unseen)
    assert found.severity is Severity.WARNING
    assert "is in the range known to be affected" in found.evidence[0]


def test_a_release_that_was_measured_right() -> None:
    """The sum over one dim is wrong from 1.3.0 on."""
    known, told = standing(advisory("GCA-2026-0012"), on("1.2.0"))
    assert known == "right"
    assert told.startswith("GCA-2026-0012, measured on executorch 1.2.0 for this advisory")
    assert standing(advisory("GCA-2026-0012"), on("1.3.1"))[0] == "wrong"


def test_a_probe_beats_the_range_and_both_are_told() -> None:
    assert standing(advisory("GCA-2026-0001"), context("right")) == (
        "right",
        "GCA-2026-0001, measured here: 2 for 1 (its version range, "
        f"{advisory('GCA-2026-0001').affected}, says otherwise; the probe counts)",
    )
    assert standing(advisory("GCA-2026-0001"), context("wrong")) == (
        "wrong",
        "GCA-2026-0001, measured here: 2 for 1",
    )


def test_a_portable_kernel_in_place_of_the_one_measured() -> None:
    same_fault = standing(advisory("GCA-2026-0004"), on("1.5.1", build=":portable"))
    assert same_fault == (
        "likely",
        "GCA-2026-0004, NOT MEASURED: what was measured is the optimized library's kernel; the "
        "source of the portable one has the same fault",
    )
    other = standing(advisory("GCA-2026-0017"), on("1.5.1", build=":portable"))
    assert other == (
        "unknown",
        "GCA-2026-0017, NOT MEASURED: what was measured is the optimized library's kernel, and "
        "this build has the portable one",
    )
    # The kernel of max pooling is portable in both builds.
    assert standing(advisory("GCA-2026-0001"), on("1.3.1", build=":portable"))[0] == "wrong"


def test_an_unmeasured_portable_kernel_is_a_note() -> None:
    x = tensor("bfloat16", 2, 512)
    norm = call(
        "aten.native_layer_norm",
        "default",
        "aten::native_layer_norm.out",
        {"input": x, "normalized_shape": [512], "weight": None, "bias": None, "eps": 1e-5},
        x,
    )
    (found,) = check(gc302_not_measured.RULE, graph(norm), on("1.5.1", build=":portable"))
    assert found.severity is Severity.NOTE


def test_limits_say_where_they_were_not_measured() -> None:
    for version in ("1.3.1", "1.2.0"):
        limits = {limit.id: limit for limit in load(version).limits}
        measured = limits["convolution-backward-transposed"]
        assert measured.measured
        assert measured.evidence.startswith("measured: ")
        unseen = limits["dim-order-view"]
        assert not unseen.measured
        assert unseen.evidence.startswith(f"NOT MEASURED on {version}, known of 1.5.1: ")
    assert all(limit.measured for limit in load("1.5.1").limits)
    # Negative pads are refused since 1.3.0.
    assert "constant-pad-negative" not in {limit.id for limit in load("1.2.0").limits}


def test_a_clone_is_lowered_as_the_release_does() -> None:
    from graphcheck.opset.support import kernel_of

    x = tensor("float32", 2)
    clone = call("aten.clone", "default", "aten::clone.out", {"self": x}, x)
    assert kernel_of(clone, load("0.7.0")) == "aten::clone.out"
    assert kernel_of(clone, load("1.0.1")) == "dim_order_ops::_clone_dim_order.out"


@pytest.mark.parametrize(
    ("installed", "target", "told"),
    [
        ("1.5.1", "1.5.1", ""),
        ("1.5.1", "1.3.1", "the installed runtime is executorch 1.5.1 with optimized kernels"),
        ("1.5.1", "1.5.1:portable", "the installed runtime is executorch 1.5.1 with optimized"),
    ],
)
def test_what_is_not_measured_is_told(
    monkeypatch: pytest.MonkeyPatch, installed: str, target: str, told: str
) -> None:
    monkeypatch.setattr(load_module, "installed_version", lambda: installed)
    found = elsewhere(load(target))
    assert bool(found) == bool(told)
    assert found.startswith(told)
    opset: Opset = load(target)
    if found:
        measured = sum({limit.id: limit.measured for limit in opset.limits}.values())
        assert f"; {measured} of " in found


def test_numerics_that_no_release_tells_are_a_note_that_names_advisory_and_release() -> None:
    """Every advisory of GC4 on ops: silent where it was measured right, else its own answer."""
    half = addmm("bfloat16", 2048)
    (found,) = deduplicate(check(gc401_half_accumulation.RULE, graph(half, half), _unseen()))
    assert (found.severity, found.count) == (Severity.NOTE, 2)
    assert found.message == (
        "was NOT CHECKED: GCA-2026-0006 was not measured on executorch 1.7.0; elsewhere it adds up "
        "to 2048 terms in bfloat16: expect a relative error up to 0.8"
    )
    assert found.evidence[0].endswith("nothing is known of executorch 1.7.0")
    far = graph(layer_norm(), example_facts=facts(1000.0))
    (found,) = check(gc402_variance_cancellation.RULE, far, _unseen())
    assert found.severity is Severity.NOTE
    assert found.message == (
        "was NOT CHECKED: GCA-2026-0004 was not measured on executorch 1.7.0; elsewhere it "
        "computes the variance as E[x2]-E[x]2 in float32, and the example data have a large mean"
    )
    (found,) = check(gc403_wide_sum.RULE, graph(total("int64", [1])), _unseen())
    assert found.message == (
        "was NOT CHECKED: GCA-2026-0012 was not measured on executorch 1.7.0; elsewhere it adds up "
        "int64 in float32 over one dim: sums above 16777216 are inexact"
    )


def test_a_portable_kernel_is_named_as_what_was_not_measured() -> None:
    unseen = replace(context(), opset=load("0.6.0:portable"))
    far = graph(layer_norm(), example_facts=facts(1000.0))
    (found,) = check(gc402_variance_cancellation.RULE, far, unseen)
    assert found.message.startswith(
        "was NOT CHECKED: GCA-2026-0004 was not measured on executorch 0.6.0 with portable kernels;"
    )


def test_healthy_graphs_are_silent_on_a_release_that_was_not_measured() -> None:
    near = graph(layer_norm(), example_facts=facts(1.0))
    assert check(gc402_variance_cancellation.RULE, near, _unseen()) == []
    few = graph(addmm("bfloat16", 15), addmm("float32", 2048))
    assert check(gc401_half_accumulation.RULE, few, _unseen()) == []
    assert check(gc403_wide_sum.RULE, graph(total("float32", [1])), _unseen()) == []


def test_numerics_measured_right_on_the_release_are_silent() -> None:
    far = graph(layer_norm(), example_facts=facts(1000.0))
    assert check(gc402_variance_cancellation.RULE, far, on("1.2.0", "wrong")) == []
    assert check(gc402_variance_cancellation.RULE, far, on("1.3.1", "right")) != []


def _unseen() -> Context:
    return context("wrong", version="1.7.0")
