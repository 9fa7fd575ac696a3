"""What cancels inside an op: its rounding is that of the terms, not of the small result."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")


def _calls():
    aten = torch.ops.aten
    random = torch.Generator().manual_seed(0)
    x = torch.randn(64, 10, generator=random) * 6
    grad = torch.randn(64, 10, generator=random)
    log, soft = torch.log_softmax(x, 1), torch.softmax(x, 1)
    return {
        "_log_softmax": (aten._log_softmax.default, (x, 1, False)),
        "_log_softmax_backward_data": (
            aten._log_softmax_backward_data.default,
            (grad, log, 1, torch.float32),
        ),
        "_softmax_backward_data": (
            aten._softmax_backward_data.default,
            (grad, soft, 1, torch.float32),
        ),
        "tanh_backward": (aten.tanh_backward.default, (grad, torch.tanh(x))),
        "gelu": (aten.gelu.default, (x,)),
        "gelu_backward": (aten.gelu_backward.default, (grad, x)),
    }


@pytest.mark.parametrize("name", sorted(_calls()))
def test_error_is_within_the_terms_and_not_within_the_result(name):
    from graphcheck.validate.cancelling import terms
    from graphcheck.validate.noise import unit

    op, arguments = _calls()[name]
    result = op(*arguments)
    wide = [
        a.double() if isinstance(a, torch.Tensor) else torch.float64 if a == torch.float32 else a
        for a in arguments
    ]
    error = (op(*wide) - result.double()).abs()
    u = unit(torch.float32)
    size = terms(name, arguments, (result,)).double()
    assert bool((error <= 8 * u * (size + result.abs())).all())
    # Eager fuses 1 - y * y into one rounding, where the compiler can.
    if name != "tanh_backward":
        assert not bool((error <= 8 * u * result.double().abs()).all())


def test_other_ops_have_no_terms():
    from graphcheck.validate.cancelling import terms

    assert terms("mul", (torch.ones(2), torch.ones(2)), (torch.ones(2),)) is None


class _Saturated(torch.nn.Module):
    """A classifier that is sure of itself: the loss has the digits of 1, and is 4e-5."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 10)
        with torch.no_grad():
            self.linear.weight.zero_()
            self.linear.bias.copy_(torch.tensor([12.3] + [0.17 * k for k in range(9)]))

    def forward(self, x):
        target = torch.zeros(x.shape[0], dtype=torch.int64)
        return torch.nn.functional.cross_entropy(self.linear(x), target)


def test_a_saturated_loss_has_the_tolerance_of_its_digits():
    from graphcheck.validate.measure import measure
    from graphcheck.validate.oracle import Oracle
    from graphcheck.workload.types import Workload

    torch.manual_seed(0)
    workload = Workload(module=_Saturated(), inputs=(torch.randn(2, 4),))
    wide = replace(
        workload,
        module=copy.deepcopy(workload.module).double(),
        inputs=tuple(x.double() for x in workload.inputs),
    )
    oracle = Oracle(workload, learning_rate=0.0)
    step, exact = oracle.step(0), Oracle(wide, learning_rate=0.0).step(0)
    tolerance = oracle.tolerances(0, step)
    off = abs(step.loss - exact.loss)
    assert off > 1e-4 * exact.loss
    assert off <= tolerance.loss <= 0.2 * exact.loss
    for name, gradient in step.gradients.items():
        error = measure(exact.gradients[name], gradient).absolute
        assert error <= tolerance.gradients[name], name
