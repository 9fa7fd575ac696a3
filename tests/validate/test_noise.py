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
