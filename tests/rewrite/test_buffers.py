"""Mutated buffers and training metadata, in the runtime, step by step against eager."""

from __future__ import annotations

import copy
import multiprocessing
import struct

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from graphcheck.errors import ModelError
from graphcheck.graph.pte import read_pte
from graphcheck.graph.trace import trace_joint
from graphcheck.rewrite.apply import apply, qualified_name
from graphcheck.rewrite.buffers import cumulative_average, initial_state_passes, mutated_buffers
from graphcheck.rewrite.interface import rewrites_for
from graphcheck.rewrite.metadata import correct

RATE = 0.2


class Counter(nn.Module):
    """Three layers of one shape, and a buffer that counts: wrong names raise nothing here."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.full((), 7.0))
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4, bias=False)
        self.c = nn.Linear(4, 4, bias=False)

    def forward(self, x, y):
        self.seen.add_(1.0)
        loss = F.mse_loss(self.c(torch.tanh(self.b(torch.tanh(self.a(x))))), y)
        return loss, self.seen.clone()


class Normed(nn.Module):
    """Batch norm whose statistics start off their defaults; all of its buffers are returned."""

    def __init__(self, momentum=0.1):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.one = nn.BatchNorm1d(4, momentum=momentum)
        self.two = nn.BatchNorm1d(4, momentum=momentum, eps=1e-3)
        self.last = nn.Linear(4, 4)
        for norm in (self.one, self.two):
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.5, 2)
            norm.num_batches_tracked.fill_(3)

    def forward(self, x, y):
        h = torch.tanh(self.two(torch.tanh(self.one(self.first(x)))))
        return F.mse_loss(self.last(h), y), *(buffer.clone() for buffer in self.buffers())


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x, y):
        return F.mse_loss(self.a(x), y)


def data(step):
    random = torch.Generator().manual_seed(step)
    return torch.randn(6, 4, generator=random) * 2 + 1, torch.randn(6, 4, generator=random)


def needed(node):
    found = rewrites_for(qualified_name(node.target))
    return found[0] if found and "batch_norm" in found[0].name else None


def lowered(model, *, keep_state=True):
    from executorch.exir import ExecutorchBackendConfig, to_edge

    with cumulative_average():
        exported = torch.export.export(model, data(0), strict=False)
    joint, _ = apply(trace_joint(exported, strict=False).joint, needed)
    passes = initial_state_passes(joint) if keep_state else []
    return bytes(to_edge(joint).to_executorch(ExecutorchBackendConfig(passes=passes)).buffer)


def in_child(work, *arguments):
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(work(*arguments)))
    child.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        pytest.fail("the runtime died")
    finally:
        child.join()


def train(program, steps, perturbed=""):
    """User outputs of each step, as a device app trains: names and places by the metadata."""
    from executorch.extension.pybindings import portable_lib

    training = read_pte(program).training["forward"]
    module = portable_lib._load_for_executorch_from_buffer(program)
    history = []
    for step in range(steps):
        outputs = module.run_method("forward", data(step), clone_outputs=False)
        history.append([value.clone().numpy() for value in outputs[: training.gradients_index]])
        pairs = zip(
            training.names,
            outputs[training.gradients_index :],
            outputs[training.parameters_index :],
            strict=False,
        )
        for name, gradient, parameter in list(pairs):
            if perturbed and name == perturbed:
                parameter.mul_(1.5)
            elif not perturbed:
                parameter.sub_(gradient * RATE)
    return history


def train_eager(model, steps, perturbed=""):
    model = copy.deepcopy(model)
    history = []
    for step in range(steps):
        model.zero_grad()
        outputs = model(*data(step))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        outputs[0].backward()
        history.append([value.detach().clone() for value in outputs])
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if perturbed and name == perturbed:
                    parameter.mul_(1.5)
                elif not perturbed:
                    parameter.sub_(parameter.grad * RATE)
    return history


def agree(runtime, eager):
    return len(runtime) == len(eager) and all(
        len(have) == len(want)
        and all(
            torch.allclose(torch.from_numpy(one), other, rtol=2e-5, atol=2e-6)
            for one, other in zip(have, want, strict=True)
        )
        for have, want in zip(runtime, eager, strict=True)
    )


MODELS = {
    "counter": Counter,
    "batch norm": Normed,
    "cumulative": lambda: Normed(momentum=None),
}


@pytest.fixture(scope="module", params=list(MODELS))
def model_and_program(request):
    torch.manual_seed(0)
    model = MODELS[request.param]()
    return model, lowered(model)


def test_training_and_statistics(model_and_program):
    """Losses, running statistics and the number of batches, over five steps of SGD."""
    model, program = model_and_program
    corrected, told = correct(program)
    assert len(told) == 1
    assert agree(in_child(train, corrected, 5), train_eager(model, 5))


def test_integers_are_exact(model_and_program):
    model, program = model_and_program
    runtime = in_child(train, correct(program)[0], 3)
    for have, want in zip(runtime, train_eager(model, 3), strict=True):
        for one, other in zip(have, want, strict=True):
            if not other.is_floating_point():
                assert torch.equal(torch.from_numpy(one), other)


def test_each_name_is_its_own_parameter(model_and_program):
    """One parameter at a time is changed, through its name: eager must answer the same."""
    model, program = model_and_program
    corrected, _ = correct(program)
    for name, _ in model.named_parameters():
        runtime = in_child(train, corrected, 3, name)
        assert agree(runtime, train_eager(model, 3, name)), name


def test_uncorrected_metadata_is_caught(model_and_program):
    model, program = model_and_program
    buffers = 1 if isinstance(model, Counter) else 6
    stated = read_pte(program).training["forward"]
    right = read_pte(correct(program)[0]).training["forward"]
    assert stated.gradients_index - right.gradients_index == buffers
    assert stated.parameters_index - right.parameters_index == buffers
    assert right.names == stated.names == tuple(name for name, _ in model.named_parameters())


def test_stock_flow_trains_wrong():
    torch.manual_seed(0)
    model = Counter()
    program = lowered(model)
    stated = read_pte(program).training["forward"]
    # One too far: the last parameter is beyond the outputs, the first keeps its value.
    assert not agree([step[:2] for step in in_child(train, program, 5)], train_eager(model, 5))
    assert stated.parameters_index == 6


def test_lost_initial_state_is_caught():
    torch.manual_seed(0)
    model = Counter()
    program, _ = correct(lowered(model, keep_state=False))
    seen = [float(step[1]) for step in in_child(train, program, 3)]
    assert seen != [8.0, 9.0, 10.0]
    assert [float(step[1]) for step in train_eager(model, 3)] == [8.0, 9.0, 10.0]


def test_message_and_idempotence(model_and_program):
    model, program = model_and_program
    corrected, told = correct(program)
    assert correct(corrected) == (corrected, ())
    assert len(corrected) == len(program)
    if isinstance(model, Counter):
        assert told == (
            "training metadata of forward: gradients start at output 2, not 3, parameters at 5, "
            "not 6: 1 mutated buffer was counted as output",
        )
    else:
        assert told[0].endswith("6 mutated buffers were counted as outputs")


def test_right_metadata_stays():
    torch.manual_seed(0)
    program = lowered(Plain())
    assert correct(program) == (program, ())


def test_metadata_that_fits_nothing():
    torch.manual_seed(0)
    program = bytearray(lowered(Plain()))
    from graphcheck.rewrite.metadata import _positions

    position = _positions(bytes(program))["__et_training_gradients_index_forward"]
    struct.pack_into("<q", program, position, 9)
    with pytest.raises(ModelError) as caught:
        correct(bytes(program))
    assert caught.value.message == (
        "the training metadata of method forward does not fit its outputs: 2 names, 5 outputs, "
        "gradients at 9, parameters at 3"
    )


def test_mutated_buffers_are_named():
    torch.manual_seed(0)
    joint = trace_joint(torch.export.export(Counter(), data(0), strict=False), strict=False).joint
    assert list(mutated_buffers(joint).values()) == ["seen"]
    plain = trace_joint(torch.export.export(Plain(), data(0), strict=False), strict=False).joint
    assert initial_state_passes(plain) == []


def test_cumulative_average_is_undone():
    from torch.nn.modules.batchnorm import _BatchNorm

    before = _BatchNorm.forward
    with cumulative_average():
        assert _BatchNorm.forward is not before
    assert _BatchNorm.forward is before

    def fail():
        with cumulative_average():
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert _BatchNorm.forward is before
