"""The eager oracle: the same weights, the same SGD, the user's module untouched."""

from __future__ import annotations

import copy

import pytest
from fake_device import load_model

from graphcheck.errors import ModelError, UsageError


def test_free_running_is_torch_sgd():
    import torch

    from graphcheck.validate.oracle import Oracle

    workload = load_model("healthy")
    oracle = Oracle(workload, learning_rate=0.05)
    module = copy.deepcopy(workload.module)
    sgd = torch.optim.SGD(module.parameters(), lr=0.05)
    for index in range(4):
        sgd.zero_grad()
        loss = module(*workload.inputs)
        loss.backward()
        sgd.step()
        assert oracle.step(index, update=True).loss == float(loss)
    assert all(
        (oracle.state()[name] == tensor.detach().numpy()).all()
        for name, tensor in module.named_parameters()
    )


def test_the_workload_is_not_changed():
    from graphcheck.validate.oracle import Oracle

    workload = load_model("counter_buffer")
    before = copy.deepcopy(workload.module.state_dict())
    oracle = Oracle(workload, learning_rate=0.05)
    oracle.step(0, update=True)
    assert all((workload.module.state_dict()[n] == t).all() for n, t in before.items())
    assert float(oracle.module.seen) == 1.0
    oracle.step(1, keep_state=True)
    assert float(oracle.module.seen) == 1.0


def test_tied_weights_are_one_parameter_with_two_names():
    import numpy

    from graphcheck.validate.oracle import Oracle

    oracle = Oracle(load_model("tied_weights"), learning_rate=0.05)
    assert oracle.trainable == ("embed.weight",)
    assert oracle.aliases == {"embed.weight": "embed.weight", "out.weight": "embed.weight"}
    oracle.load({"out.weight": numpy.ones((9, 6), dtype="float32")})
    assert (oracle.state()["embed.weight"] == 1).all()


def test_batches_are_used_in_turn():
    from graphcheck.validate.oracle import Oracle

    workload = load_model("pool_first")
    x, y = workload.inputs
    oracle = Oracle(workload, learning_rate=0.05, batches=(((x, y), {}), ((x + 1, y), {})))
    losses = [oracle.step(index).loss for index in range(4)]
    assert losses[0] == losses[2] != losses[1] == losses[3]


def test_an_optimizer_eager_does_not_know():
    from graphcheck.validate.oracle import Oracle

    with pytest.raises(UsageError, match="optimizer 'lion' cannot be compared"):
        Oracle(load_model("pool_first"), learning_rate=0.05, optimizer="lion")


def test_a_model_that_cannot_be_copied():
    import torch

    from graphcheck.validate.oracle import Oracle
    from graphcheck.workload.types import Workload

    class Locked(torch.nn.Module):
        def __deepcopy__(self, memo):
            raise TypeError("holds a file handle")

    with pytest.raises(ModelError, match=r"cannot be copied.*holds a file handle"):
        Oracle(Workload(Locked(), ()), learning_rate=0.05)


COUNT = 0


def test_what_forward_changes_outside_the_model_begins_anew():
    """A counter of the user's file: every oracle sees the same, and noise does not move it."""
    import torch

    from graphcheck.validate.oracle import Oracle
    from graphcheck.workload.types import Workload

    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x):
            global COUNT
            COUNT += 1
            return self.layer(x).square().mean() * COUNT

    workload = Workload(Counted(), (torch.ones(2, 3),))
    runs = []
    for _ in range(2):
        oracle = Oracle(workload, learning_rate=0.05)
        losses = []
        for index in range(3):
            before = oracle.now()
            step = oracle.step(index)
            after = oracle.now()
            before.put()
            assert oracle.tolerances(index, step).loss <= 1e-5 * step.loss
            after.put()
            losses.append(step.loss)
        oracle.rest()
        runs.append(losses)
    assert runs[0] == runs[1] == pytest.approx([losses[0] * n for n in (1, 2, 3)])
    assert COUNT == 0
