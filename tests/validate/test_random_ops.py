"""Models with random ops: never wrong for chance, wrong for a missing scale."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy
import pytest
from fake_device import load_model, trained


@cache
def _trace(seed, unscaled=False):
    """What a runtime records of the dropout model; `unscaled` as the stock kernel computes it."""
    import torch

    workload = load_model("dropout")

    class Unscaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            mask = torch.rand_like(x) < 0.5
            ctx.save_for_backward(mask)
            return x * mask

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0] * 2

    if unscaled:
        workload.module.drop.forward = Unscaled.apply
    return trained(workload, 20, amplitude=0, seed=seed)


def _compare(trace):
    from graphcheck.validate.oracle import Oracle
    from graphcheck.validate.random_ops import compare_statistics

    return compare_statistics(trace, Oracle(load_model("dropout"), learning_rate=0.05))


@pytest.mark.parametrize("seed", range(4))
def test_other_draws_are_not_a_divergence(seed):
    found = _compare(_trace(seed))
    assert found.first_locked is None
    assert found.by_distribution
    assert found.locked_steps == len(found.eager_losses) == 20
    assert set(found.worst) == {"a.weight", "a.bias", "b.weight", "b.bias"}


@pytest.mark.parametrize("seed", range(4))
def test_survivors_that_are_not_scaled(seed):
    found = _compare(_trace(seed, unscaled=True))
    assert found.first_locked is not None
    assert found.told.startswith(("the scale of the gradient of b.weight is ", "the squared size"))


def test_a_gradient_that_is_missing():
    trace = _trace(0)
    records = [replace(r, gradients={"a.bias": r.gradients["a.bias"]}) for r in trace.steps]
    found = _compare(replace(trace, steps=tuple(records)))
    assert found.first_locked.step == 0
    assert found.told.endswith("at step 0: the program has none of this name and shape")


def test_a_nan():
    trace = _trace(0)
    record = trace.steps[2]
    spoiled = {**record.gradients, "b.bias": numpy.full(3, numpy.nan, numpy.float32)}
    steps = list(trace.steps)
    steps[2] = replace(record, gradients=spoiled)
    found = _compare(replace(trace, steps=tuple(steps)))
    assert (found.first_locked.step, found.first_locked.quantity) == (2, "b.bias")


def test_a_wrong_update_is_no_matter_of_chance():
    found = _compare(trained(load_model("dropout"), 5, 0.051, amplitude=0))
    assert found.first_locked.step == 0
    assert found.told.startswith("the update of a.weight at step 0 is not weight - learning rate")


def test_the_generator_is_left_alone():
    import torch

    before = torch.get_rng_state()
    _compare(replace(_trace(0), steps=_trace(0).steps[:2]))
    assert torch.equal(torch.get_rng_state(), before)


def test_replayed_draws_give_the_same_step():
    """Draws recorded from one eager pass, replayed in another, give the same numbers."""
    import torch

    from graphcheck.validate.oracle import Oracle
    from graphcheck.validate.replay import Draw, replay_mode

    oracle = Oracle(load_model("dropout"), learning_rate=0.05)
    mask = (torch.rand(64, 32) < 0.5).numpy()
    draw = Draw("native_dropout", mask, mask)
    first = oracle.step(0, mode=replay_mode([draw]))
    second = oracle.step(0, mode=replay_mode([draw]))
    other = oracle.step(0, mode=replay_mode([replace(draw, mask=~mask)]))
    assert first.loss == second.loss != other.loss
    hidden = torch.relu(torch.nn.functional.linear(*_layer(oracle, "a"))) * torch.tensor(mask) * 2
    module = oracle.module
    wanted = torch.nn.functional.cross_entropy(module.b(hidden), oracle.batches[0][0][1])
    assert first.loss == pytest.approx(float(wanted), rel=1e-6)


def _layer(oracle, name):
    layer = getattr(oracle.module, name)
    return oracle.batches[0][0][0], layer.weight, layer.bias


@pytest.mark.parametrize(
    ("draws", "why"),
    [
        ([], "eager draws more often than the program"),
        (
            [("native_dropout", (64, 31))],
            "eager draws [64, 32] by bernoulli, the program [64, 31]",
        ),
        ([("rand", None)], "eager draws a mask by bernoulli, the program has none after rand"),
    ],
)
def test_draws_that_do_not_fit(draws, why):
    from graphcheck.validate.oracle import Oracle
    from graphcheck.validate.replay import Draw, ReplayError, replay_mode

    oracle = Oracle(load_model("dropout"), learning_rate=0.05)
    made = [
        Draw(op, numpy.zeros(shape or (64, 32)), numpy.zeros(shape) if shape else None)
        for op, shape in draws
    ]
    with pytest.raises(ReplayError) as error:
        oracle.step(0, mode=replay_mode(made))
    assert str(error.value) == why


def _hardly_random():
    import torch

    from graphcheck.workload.types import Workload

    class Model(torch.nn.Module):
        """What is dropped is a ten-millionth of the whole: chance matters less than rounding."""

        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(40, 40), torch.nn.Linear(40, 3)

        def forward(self, x):
            x = self.a(x).tanh()
            x = x + 1e-7 * torch.nn.functional.dropout(x)
            return torch.nn.functional.cross_entropy(self.b(x), torch.tensor([0, 1, 2, 0]))

    torch.manual_seed(0)
    return Workload(module=Model(), inputs=(torch.randn(4, 40),))


@pytest.mark.parametrize(("amplitude", "right"), [(1.0, True), (3000.0, False)])
def test_rounding_is_allowed_where_chance_hardly_matters(amplitude, right):
    from graphcheck.validate.oracle import Oracle
    from graphcheck.validate.random_ops import compare_statistics

    workload = _hardly_random()
    trace = trained(workload, 3, amplitude=amplitude, seed=5)
    found = compare_statistics(trace, Oracle(workload, learning_rate=0.05))
    assert (found.first_locked is None) == right, found.told
