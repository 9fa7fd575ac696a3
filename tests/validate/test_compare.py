"""Comparison of hand-made traces: right ones match, each kind of fault is caught and named."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy
import pytest
from fake_device import gradient_changed, load_model, spoiled, trained

from graphcheck.runtime.types import StepRecord, Trace


@cache
def _trace(name, steps=12, learning_rate=0.05):
    return trained(load_model(name), steps, learning_rate)


def _compare(name, trace, learning_rate=0.05, **options):
    from graphcheck.validate.compare import compare
    from graphcheck.validate.oracle import Oracle

    workload = load_model(name)
    oracles = [Oracle(workload, learning_rate=learning_rate) for _ in range(2)]
    return compare(trace, *oracles, **options)


@pytest.mark.parametrize(
    "name", ["healthy", "pool_first", "tied_weights", "batch_norm", "overlap_pool", "seed_cnn"]
)
def test_a_right_trace_matches(name):
    found = _compare(name, _trace(name))
    assert (found.first_locked, found.first_free, found.notes) == (None, None, [])
    assert found.locked_steps == len(found.eager_losses) == 12
    assert found.worst
    assert not found.names_shifted


def test_one_gradient_entry_off_by_a_thousandth():
    def change(gradient):
        gradient.flat[5] += 1e-3 * abs(gradient).max()
        return gradient

    found = _compare("healthy", spoiled(_trace("healthy"), 7, gradient_changed("a.weight", change)))
    assert (found.first_locked.step, found.first_locked.quantity) == (7, "a.weight")
    assert found.first_locked.error == pytest.approx(1e-3, rel=0.01)
    assert found.first_locked.tolerance < 2e-4
    assert found.locked_steps == 12


def test_a_nan_in_one_entry():
    def change(gradient):
        gradient.flat[0] = math.nan
        return gradient

    found = _compare("healthy", spoiled(_trace("healthy"), 3, gradient_changed("fc.bias", change)))
    assert (found.first_locked.step, found.first_locked.quantity) == (3, "fc.bias")
    assert math.isnan(found.first_locked.runtime)
    assert math.isnan(found.worst["fc.bias"])


def test_a_wrong_loss():
    trace = spoiled(_trace("healthy"), 2, lambda r: replace(r, loss=r.loss * (1 + 1e-4)))
    found = _compare("healthy", trace)
    assert (found.first_locked.step, found.first_locked.quantity) == (2, "loss")


def test_a_gradient_that_is_missing_or_of_another_shape():
    def without(record):
        return replace(
            record, gradients={n: g for n, g in record.gradients.items() if n != "fc.bias"}
        )

    found = _compare("healthy", spoiled(_trace("healthy"), 0, without))
    assert (found.first_locked.step, found.first_locked.quantity) == (0, "fc.bias")
    assert found.first_locked.error == math.inf
    change = gradient_changed("fc.bias", lambda gradient: gradient.reshape(1, -1))
    found = _compare("healthy", spoiled(_trace("healthy"), 4, change))
    assert (found.first_locked.step, found.first_locked.quantity) == (4, "fc.bias")


def test_shifted_names_are_told():
    """What the training metadata does to equal-shaped layers when a buffer is mutated."""

    def shift(record):
        def moved(arrays):
            return {"a.weight": arrays["b.weight"], "b.weight": arrays["c.weight"]}

        return replace(
            record, gradients=moved(record.gradients), parameters=moved(record.parameters)
        )

    trace = Trace(steps=tuple(shift(record) for record in _trace("counter_buffer").steps))
    order = ["c.weight", "b.weight", "a.weight"]
    found = _compare("counter_buffer", trace, order=order)
    assert found.names_shifted
    assert (found.first_locked.step, found.first_locked.quantity) == (0, "c.weight")
    assert found.notes == [
        "the program's training metadata gives parameters the names of others: "
        "a.weight holds the values of b.weight; b.weight holds the values of c.weight; "
        "c.weight is missing; compared locked at step 0 alone"
    ]
    assert found.locked_steps == 1


def test_of_several_wrong_gradients_the_first_made_is_told():
    def change(record):
        return replace(record, gradients={n: 2 * g for n, g in record.gradients.items()})

    trace = spoiled(_trace("healthy"), 1, change)
    assert _compare("healthy", trace, order=["norm.bias"]).first_locked.quantity == "norm.bias"
    assert _compare("healthy", trace).first_locked.quantity == "fc.bias"


def test_a_wrong_update_is_named():
    trace = trained(load_model("healthy"), 12, 0.05 * 1.001)
    found = _compare("healthy", trace)
    assert (found.first_locked.step, found.first_free) == (0, None)
    assert found.told.startswith("the update of embed.weight at step 0 is not weight - ")


def _chaos():
    """Steep tanh layers and a large step: rounding grows until the curves part."""
    import torch

    from graphcheck.workload.types import Workload

    class Steep(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(8, 32)
            self.b = torch.nn.Linear(32, 32)
            self.c = torch.nn.Linear(32, 3)

        def forward(self, x, y):
            hidden = torch.tanh(3 * self.b(torch.tanh(3 * self.a(x))))
            return torch.nn.functional.cross_entropy(self.c(hidden), y)

    torch.manual_seed(0)
    return Workload(Steep(), (torch.randn(16, 8), torch.randint(0, 3, (16,))))


def test_drift_is_right_steps_whose_curves_part():
    from graphcheck.validate.compare import compare
    from graphcheck.validate.oracle import Oracle

    trace = trained(_chaos(), 40, 2.0)
    oracles = [Oracle(_chaos(), learning_rate=2.0) for _ in range(2)]
    found = compare(trace, *oracles)
    assert found.first_locked is None
    assert found.locked_steps == 40
    assert found.first_free is not None
    assert found.first_free.step > 3


def test_weights_that_are_not_finite_end_the_locked_comparison():
    trace = spoiled(
        _trace("healthy"),
        6,
        lambda r: replace(r, parameters={**r.parameters, "fc.bias": numpy.full(2, math.nan)}),
    )
    found = _compare("healthy", trace)
    assert found.locked_steps == 6
    assert found.notes == [
        "the runtime's weights are not finite from step 6 on: nothing to compare locked after it"
    ]


def test_prefix_of_a_wrapper_is_cut():
    def change(gradient):
        return 2 * gradient

    trace = spoiled(_trace("healthy"), 1, gradient_changed("fc.bias", change))
    found = _compare("healthy", trace, prefix="fc.")
    assert found.first_locked.quantity == "bias"


def test_measure():
    from graphcheck.validate.measure import measure

    assert measure([1.0, 2.5], [1.0, 2.0]).absolute == 0.5
    assert measure([math.nan, 1.0], [math.nan, 1.0]).absolute == 0.0
    assert measure([math.inf], [math.inf]).absolute == 0.0
    assert math.isnan(measure([math.nan, 1.0], [1.0, 1.0]).absolute)
    assert measure([1.0], [1.0, 1.0]).absolute == math.inf
    assert measure(None, [1.0, -3.0]).scale == 3.0
    assert measure(numpy.zeros((0,)), numpy.zeros((0,))).absolute == 0.0


def test_no_recorded_gradients():
    trace = Trace(steps=tuple(StepRecord(loss=r.loss) for r in _trace("healthy").steps))
    found = _compare("healthy", trace)
    assert found.first_locked is not None
    assert found.first_locked.error == math.inf


def test_gradients_that_rounding_alone_moves_are_told():
    """Batch norms of three values, one behind the other: hardly anything is compared there."""
    import torch
    from torch import nn

    from graphcheck.validate.compare import compare
    from graphcheck.validate.oracle import Oracle
    from graphcheck.workload.load import from_module

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            layers = [(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU()) for _ in range(8)]
            flat = [nn.Linear(8, 8), *(layer for group in layers for layer in group)]
            self.net = nn.Sequential(*flat)
            self.fc = nn.Linear(8, 2)

        def forward(self, x, y):
            return nn.functional.cross_entropy(self.fc(self.net(x)), y)

    torch.manual_seed(0)
    workload = from_module(Deep(), (torch.randn(3, 8) * 1e-3, torch.tensor([0, 1, 0])))
    found = compare(trained(workload, 4), Oracle(workload, learning_rate=0.05), None)
    assert found.first_locked is None
    wide = {n: share for n, share in found.gradient_tolerances.items() if share > 0.05}
    worst = max(wide, key=lambda name: wide[name])
    assert found.notes == [
        f"rounding alone can change {len(wide)} of 36 gradients by more than 5% of their largest "
        f"entry in every step (that of {worst} by {wide[worst]:.0%}): a smaller error there is NOT "
        "CHECKED by training; a larger batch narrows it, and --shadow checks each instruction by "
        "itself"
    ]


def _losing(scale):
    """A square root: at 0 the loss is finite and the gradient is not, below it both are NaN."""
    import torch

    from graphcheck.workload.load import from_module

    class Rooted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([scale, 1.0]))

        def forward(self, x):
            return torch.sqrt(self.weight * x).sum()

    return from_module(Rooted(), (torch.ones(2),))


@pytest.mark.parametrize(
    ("scale", "lost", "told"),
    [
        (
            0.0,
            (0, "weight", ""),
            "the gradient of weight is not finite at step 0 in eager PyTorch itself: there is "
            "nothing to compare with; look at the model and its example inputs",
        ),
        (
            0.01,
            (1, "weight", "SqrtBackward0"),
            "the gradient of weight is not finite at step 1 in eager PyTorch itself (first made by "
            "SqrtBackward0): there is nothing to compare with from there on; train with a smaller "
            "--learning-rate, or look at the model and its data",
        ),
        (1.0, None, ""),
    ],
)
def test_a_gradient_that_eager_itself_loses(scale, lost, told):
    from graphcheck.validate.compare import compare
    from graphcheck.validate.oracle import Oracle
    from graphcheck.validate.reason import lost_in_eager

    workload = _losing(scale)
    trace = trained(workload, 2, amplitude=0.0)
    oracles = [Oracle(workload, learning_rate=0.05) for _ in range(2)]
    found = compare(trace, *oracles)
    assert (found.lost, found.first_locked) == (lost, None)
    assert lost_in_eager(found) == told
