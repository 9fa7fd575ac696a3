"""Ties of max pools: which gradients are admissible, and how often ties are met."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch import nn

from graphcheck.report.text_ties import effect_sentence, pool_sentence
from graphcheck.validate.ties.admissible import admissible_gradient
from graphcheck.validate.ties.measure import measure_ties
from graphcheck.validate.ties.windows import Windows
from graphcheck.workload.types import Workload

_POOL = {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1]}


def _judged(source, gradient, observed, **pool):
    given = {**_POOL, "ceil_mode": False, **pool}
    source = torch.tensor(source)[None, None]
    rest = [given[name] for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")]
    _, indices = torch.ops.aten.max_pool2d_with_indices(source, *rest)
    gradient = torch.tensor(gradient)[None, None]
    given |= {"self": source, "grad_output": gradient, "indices": indices}
    right = torch.ops.aten.max_pool2d_with_indices_backward(gradient, source, *rest, indices)
    observed = torch.tensor(observed)[None, None]
    return admissible_gradient(given, observed, observed != right, 1e-6)


_TIED = [[1.0, 3.0, 5.0, 0.0], [3.0, 0.0, 1.0, 2.0]]


@pytest.mark.parametrize(
    ("observed", "windows"),
    [
        ([[0.0, 0.0, 4.0, 0.0], [2.0, 0.0, 0.0, 0.0]], 1),  # the last
        ([[0.0, 1.0, 4.0, 0.0], [1.0, 0.0, 0.0, 0.0]], 1),  # equal parts
        ([[0.0, 0.5, 4.0, 0.0], [1.5, 0.0, 0.0, 0.0]], 1),  # any parts
        ([[0.0, 2.0, 4.0, 0.0], [2.0, 0.0, 0.0, 0.0]], None),  # twice
        ([[0.0, 3.0, 4.0, 0.0], [-1.0, 0.0, 0.0, 0.0]], None),  # more than there is
        ([[0.0, 1.0, 4.0, 0.0], [0.9, 0.0, 0.0, 0.0]], None),  # a part is lost
        ([[2.0, 0.0, 4.0, 0.0], [0.0, 0.0, 0.0, 0.0]], None),  # not one of the largest
        ([[0.0, 2.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.0]], None),  # no tie in that window
        ([[0.0, 0.0, 4.1, 0.0], [2.0, 0.0, 0.0, 0.0]], None),  # right choice, wrong elsewhere
    ],
)
def test_the_gradient_of_a_tied_window_may_go_to_any_of_its_largest(observed, windows):
    assert _judged(_TIED, [[2.0, 4.0]], observed) == windows


def test_windows_that_share_cells_are_judged_together():
    source = [[3.0, 3.0, 3.0, 1.0]]
    pool = {"kernel_size": [1, 2], "stride": [1, 1]}
    gradient = [[1.0, -2.0, 4.0]]
    assert _judged(source, gradient, [[0.0, 1.0, 2.0, 0.0]], **pool) == 2
    assert _judged(source, gradient, [[0.5, -0.5, 3.0, 0.0]], **pool) == 2
    # The first window has 1 to give, and it cannot all come from the second.
    assert _judged(source, gradient, [[2.0, -1.0, 2.0, 0.0]], **pool) is None
    assert _judged(source, gradient, [[0.0, 3.0, 0.0, 0.0]], **pool) is None


@pytest.mark.parametrize("ceil", [False, True])
def test_windows_are_those_of_torch(ceil):
    torch.manual_seed(3)
    source = torch.randn(2, 3, 9, 7)
    pool = nn.MaxPool2d((3, 2), (2, 3), (1, 0), (2, 1), ceil_mode=ceil, return_indices=True)
    values, indices = pool(source)
    given = {"kernel_size": [3, 2], "stride": [2, 3], "padding": [1, 0], "dilation": [2, 1]}
    windows = Windows(source, given, tuple(values.shape))
    assert torch.equal(windows.largest.reshape(values.shape), values.double())
    assert not bool(windows.tied.any())
    gradient = torch.randn(values.shape)
    x = source.clone().requires_grad_()
    pool(x)[0].backward(gradient)
    for made in (windows.split(gradient), windows.indexed(gradient, indices)):
        torch.testing.assert_close(made.float(), x.grad)


class _Net(nn.Module):
    def __init__(self, relu):
        super().__init__()
        self.conv = nn.Conv2d(2, 1, 1, bias=False)
        nn.init.ones_(self.conv.weight)
        self.pool = nn.MaxPool2d((1, 2))
        self.relu = relu

    def forward(self, x):
        x = self.conv(x)
        x = self.pool(torch.relu(x) if self.relu else x)
        return (x * torch.arange(1.0, 1 + x.numel(), dtype=x.dtype).reshape(x.shape)).mean()


def test_windows_are_sorted_by_what_their_ties_mean():
    # Per window, the two patches: equal; different with equal sums; one above; nearly equal;
    # both below zero.
    first = [[1.0, 1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 1.0, -3.0, -1.0]]
    second = [[2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0 + 2e-7, -1.0, -2.0]]
    x = torch.tensor([first, second])[None].reshape(1, 2, 1, 10)
    (pool,) = measure_ties(Workload(_Net(True), (x,)), ("float32",), lambda _: None).pools
    assert (pool.pool, pool.dtype, pool.windows) == ("pool", "float32", 5)
    shares = (pool.inert, pool.same, pool.different, pool.near)
    assert shares == pytest.approx((0.2, 0.2, 0.2, 0.2))
    assert pool.bounded == "conv.weight"
    # Window 1 has the gradient 2/5 and the patches (1, 2) and (2, 1).
    weights = numpy.array([0.2 * 1 + 0.4 * 1 + 0.6 * 2 + 0.8, 0.2 * 2 + 0.4 * 2 + 0.6 + 0.8])
    assert pool.bound == pytest.approx(0.4 * 3 / weights.max(), rel=1e-3)
    (pool,) = measure_ties(Workload(_Net(False), (x,)), ("float32",), lambda _: None).pools
    assert pool.inert == 0.0


def test_the_effect_of_the_rule_is_within_the_bound():
    x = torch.tensor([[[1.0, 2.0]], [[2.0, 1.0]]])[None]
    report = measure_ties(Workload(_Net(False), (x,)), ("float32", "bfloat16"), lambda _: None)
    assert [effect.dtype for effect in report.effects] == ["float32", "bfloat16"]
    for effect, pool in zip(report.effects, report.pools, strict=True):
        # First index: (1, 2); equal parts: (1.5, 1.5).
        assert effect.variation == pytest.approx(0.5**0.5 / 5**0.5, rel=1e-2)
        assert effect.parameter == "conv.weight"
        assert pool.bound >= 0.25
        assert pool.different == 1.0


def test_more_ties_the_fewer_digits():
    torch.manual_seed(1)

    class Image(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.pool = nn.MaxPool2d(2)

        def forward(self, x):
            return self.pool(self.conv(x)).square().mean()

    report = measure_ties(Workload(Image(), (torch.randn(4, 3, 40, 40),)), progress=lambda _: None)
    ties = {pool.dtype: pool.different for pool in report.pools}
    assert ties["float32"] < 1e-4 < ties["float16"] < ties["bfloat16"] < 0.05
    effects = {effect.dtype: effect.variation for effect in report.effects}
    assert effects["float32"] < 1e-4
    assert effects["float16"] < effects["bfloat16"] < 0.1


def test_what_has_no_pool_or_cannot_be_trained_says_so():
    report = measure_ties(Workload(nn.Sequential(nn.Flatten(0)), (torch.ones(1),)), ("float32",))
    assert effect_sentence(report.effects[0]).startswith(
        "float32: NOT MEASURED, eager cannot train"
    )

    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(x).mean()

    report = measure_ties(Workload(Mean(), (torch.ones(2, 2),)), ("float32",), lambda _: None)
    assert effect_sentence(report.effects[0]) == (
        "float32: NOT MEASURED, the model has no max pool"
    )


def test_sentences():
    x = torch.tensor([[[1.0, 2.0]], [[2.0, 1.0]]])[None]
    report = measure_ties(Workload(_Net(False), (x,)), ("float32",), lambda _: None)
    assert pool_sentence(report.pools[0]) == (
        "pool float32: 1 window; tied: 0 % without gradient, 0 % from equal patches, 100 % from "
        "different ones; nearly tied: 0 %; no choice moves the gradient of conv.weight by more "
        "than 1.5e+00 of its largest entry"
    )
    assert effect_sentence(report.effects[0]) == (
        "float32: splitting ties equally, in place of the first index, moves the gradients by "
        "3.2e-01 of their norm, most that of conv.weight (3.2e-01)"
    )
