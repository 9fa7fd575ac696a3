"""The tolerance of rounding: wide enough for every right kernel, far too narrow for a wrong one."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from fake_device import load_model

pytest.importorskip("torch")

RIGHT = ["healthy", "seed_cnn", "batch_norm", "attention", "conv1d", "tied_weights", "pad_between"]


def _in_float64(workload):
    return replace(
        workload,
        module=copy.deepcopy(workload.module).double(),
        inputs=tuple(x.double() if x.is_floating_point() else x for x in workload.inputs),
    )


@pytest.mark.parametrize("name", RIGHT)
def test_float64_is_within_tolerance_and_tolerance_is_small(name):
    from graphcheck.validate.measure import measure
    from graphcheck.validate.oracle import Oracle

    workload = load_model(name)
    oracle = Oracle(workload, learning_rate=0.05)
    step = oracle.step(0)
    exact = Oracle(_in_float64(workload), learning_rate=0.05).step(0)
    tolerances = oracle.tolerances(0, step)
    assert abs(step.loss - exact.loss) <= tolerances.loss <= 1e-4 * abs(step.loss)
    largest = max(abs(gradient).max() for gradient in step.gradients.values())
    for parameter, gradient in step.gradients.items():
        error = measure(exact.gradients[parameter], gradient).absolute
        assert error <= tolerances.gradients[parameter] <= 1e-3 * largest, parameter


def test_zero_gradient_before_a_norm_has_a_floor():
    from graphcheck.validate.oracle import Oracle

    oracle = Oracle(load_model("batch_norm"), learning_rate=0.05)
    step = oracle.step(0)
    tolerance = oracle.tolerances(0, step).gradients["conv.bias"]
    assert abs(step.gradients["conv.bias"]).max() < tolerance


def test_a_value_at_a_kink_is_in_the_tolerance():
    """A ReLU input within rounding of zero may fall on either side of it."""
    import torch

    from graphcheck.validate.oracle import Oracle
    from graphcheck.workload.types import Workload

    class Kink(torch.nn.Module):
        def __init__(self, bias):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1, 3))
            self.bias = torch.nn.Parameter(torch.tensor([bias]))

        def forward(self, x):
            return torch.relu(x @ self.weight.T + self.bias).sum()

    x = torch.tensor([[0.1, 0.2, 0.3]])
    for bias, at_kink in ((-float(x.sum()) * (1 - 1e-7), True), (-0.3, False)):
        oracle = Oracle(Workload(Kink(bias), (x,)), learning_rate=0.1)
        tolerance = oracle.tolerances(0, oracle.step(0), pairs=range(6)).gradients["bias"]
        assert (tolerance >= 1.0) is at_kink


@pytest.mark.parametrize("pick", ["amax", "max", "sort", "topk"])
def test_a_tie_of_a_reduction_is_in_the_tolerance(pick):
    """Entries that are equal in eager may differ by one rounding elsewhere: the pick moves."""
    import torch

    from graphcheck.validate.oracle import Oracle
    from graphcheck.workload.types import Workload

    picks = {
        "amax": lambda h: h.amax(1),
        "max": lambda h: h.max(1).values,
        "sort": lambda h: h.sort(1, descending=True).values[:, 0],
        "topk": lambda h: h.topk(1, 1).values[:, 0],
    }

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(6, 4)
            with torch.no_grad():
                self.linear.weight.copy_(self.linear.weight[:1].expand(4, 6))
                self.linear.bias.fill_(0.5)

        def forward(self, x):
            return (picks[pick](self.linear(x)) * torch.arange(1.0, 4.0)).sum()

    torch.manual_seed(0)
    oracle = Oracle(Workload(module=Tied(), inputs=(torch.randn(3, 6),)), learning_rate=0.1)
    step = oracle.step(0)
    tolerances = oracle.tolerances(0, step)
    assert tolerances.gradients["linear.bias"] >= 0.5
    assert tolerances.loss <= 1e-4 * abs(step.loss)


def test_noise_leaves_the_generator_and_the_weights_alone():
    import torch

    from graphcheck.validate.oracle import Oracle

    workload = load_model("healthy")
    oracle = Oracle(workload, learning_rate=0.05)
    step = oracle.step(0)
    before, state = torch.get_rng_state(), oracle.state()
    oracle.tolerances(0, step)
    assert torch.equal(torch.get_rng_state(), before)
    assert all((oracle.state()[name] == array).all() for name, array in state.items())
    assert oracle.tolerances(0, step) == oracle.tolerances(0, step)


def test_opposite_signs_draw_opposite_noise():
    import torch

    from graphcheck.validate.noise import AMPLITUDE, noise_mode, unit

    ones = torch.ones(1000)
    with noise_mode(1, 5):
        up = ones * 1.0
    with noise_mode(-1, 5):
        down = ones * 1.0
    assert torch.allclose(up - 1, 1 - down, atol=2 * unit(torch.float32))
    assert 0.5 < float((up - 1).std()) / (AMPLITUDE * unit(torch.float32)) < 2
    with noise_mode(1, 5):
        assert torch.equal(ones.reshape(10, 100).t().clone(), ones.reshape(10, 100).t())


def test_flags_are_left_alone():
    """The backward of this loss refuses flags that are not 0 or 1."""
    import torch

    from graphcheck.validate.noise import noise_mode

    x = torch.tensor([[0.1, 0.2, 0.4, 0.8]], requires_grad=True)
    y = torch.tensor([[3, 0, -1, 1]])
    with noise_mode(1, 3):
        loss = torch.nn.functional.multilabel_margin_loss(x, y)
        loss.backward()
    assert x.grad is not None
    assert float(loss) != float(torch.nn.functional.multilabel_margin_loss(x, y))


def _masked(blocked):
    """A softmax over scores of which some are -inf, as an attention mask makes them."""
    import torch

    from graphcheck.workload.types import Workload

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.score, self.value = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

        def forward(self, x):
            mask = torch.zeros(6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), blocked)
            weights = (self.score(x) @ x.transpose(-1, -2) * 3 + mask).softmax(-1)
            return (weights @ self.value(x)).square().mean()

    return Workload(Masked(), (torch.randn(4, 6, 6),))


def test_a_mask_of_minus_infinity_has_the_tolerance_of_a_large_number():
    from graphcheck.validate.oracle import Oracle

    found = []
    for blocked in (float("-inf"), -1e4):
        oracle = Oracle(_masked(blocked), learning_rate=0.05)
        step = oracle.step(0)
        found.append(oracle.tolerances(0, step))
    masked, large = found
    assert masked.loss > 1.5 * 8 * 2.0**-24 * step.loss
    for name in ("score.weight", "value.weight"):
        assert 0.2 < masked.gradients[name] / large.gradients[name] < 5.0


@pytest.mark.parametrize("kind", ["assigned", "attribute", "numpy", "python", "torch"])
def test_state_that_moves_is_no_rounding(kind):
    """What forward changes from step to step is not taken for what rounding can do."""
    import random

    import numpy
    import torch

    from graphcheck.validate.oracle import Oracle
    from graphcheck.workload.types import Workload

    class Moving(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(6, 4)
            self.register_buffer("mean", torch.zeros(4))
            self.prev = None
            self.numpy, self.python = numpy.random.default_rng(0), random.Random(0)
            self.torch = torch.Generator().manual_seed(0)

        def forward(self, x):
            h = self.layer(x)
            if kind == "assigned":
                self.mean = 0.5 * self.mean + h.detach().mean(0)
                return (h - self.mean).square().mean()
            if kind == "attribute":
                prev = 0 if self.prev is None else self.prev
                self.prev = prev + h.detach()
                return (h + prev).square().mean()
            if kind == "torch":
                return (h * torch.rand((), generator=self.torch)).square().mean()
            factor = self.numpy.uniform(0.5, 1.5) if kind == "numpy" else self.python.random()
            return (h * float(factor)).square().mean()

    oracle = Oracle(Workload(Moving(), (torch.randn(3, 6),)), learning_rate=0.05)
    from graphcheck.graph.module_state import ModuleState

    losses = []
    for index in range(3):
        before = ModuleState(oracle.module)
        step = oracle.step(index)
        losses.append(step.loss)
        after = ModuleState(oracle.module)
        before.put()
        tolerances = oracle.tolerances(index, step)
        after.put()
        assert tolerances.loss <= 1e-5 * step.loss
        largest = max(abs(gradient).max() for gradient in step.gradients.values())
        assert all(t <= 1e-5 * largest for t in tolerances.gradients.values())
    assert len(set(losses)) == 3


def test_a_gradient_that_a_perturbed_pass_does_not_have_counts_as_zero():
    import torch

    from graphcheck.validate.oracle import Oracle
    from graphcheck.workload.types import Workload

    class Skipping(torch.nn.Module):
        """Leaves a layer out in every pass but the first, which nothing can put back."""

        passes = []  # noqa: RUF012

        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def forward(self, x):
            self.passes.append(1)
            h = self.first(x)
            return (self.second(h) if len(self.passes) == 1 else h).square().mean()

    oracle = Oracle(Workload(Skipping(), (torch.randn(2, 3),)), learning_rate=0.05)
    step = oracle.step(0)
    tolerances = oracle.tolerances(0, step)
    size = float(abs(step.gradients["second.weight"]).max())
    assert tolerances.gradients["second.weight"] >= size
