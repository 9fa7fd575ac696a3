"""Lowers the small models of the runtime tests; run as a script in a child process.

`python build_programs.py FOLDER NAME...` writes `NAME.pte` and `NAME.npz`: the inputs, and what
eager PyTorch gives in `STEPS` steps of plain SGD (losses, gradients and parameters by name).
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from unittest import mock

import numpy
import torch
import torch.nn.functional as F
from torch import nn

STEPS = 6
LEARNING_RATE = 0.05


class SeedCnn(nn.Module):
    """Two poolings after convolutions: the stock pool backward accumulates into stale memory."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.pool2 = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(1024, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x, y):
        x = self.pool1(torch.relu(self.conv1(x)))
        x = self.pool2(torch.relu(self.conv2(x)))
        x = torch.relu(self.fc1(x.flatten(1)))
        return F.cross_entropy(self.fc2(x), y)


class Healthy(nn.Module):
    """Grouped and dilated convolutions, GroupNorm, GELU, repeated embedding rows: all right."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4, padding_idx=0)
        self.a = nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=4)
        self.norm = nn.GroupNorm(2, 4)
        self.b = nn.Conv2d(4, 6, 4, stride=4, groups=2, bias=False)
        self.fc = nn.Linear(6, 2)

    def forward(self, x, ids, y):
        h = F.gelu(self.norm(self.a(x) + self.embed(ids).mean(1)[:, :, None, None]))
        return F.cross_entropy(self.fc(self.b(h).mean((2, 3))), y)


class DropoutPool(nn.Module):
    """A stale instruction behind a random one: the fault must be told from the randomness."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.fc = nn.Linear(64, 3)

    def forward(self, x, y):
        h = F.dropout(torch.relu(self.conv(x)), 0.5)
        return F.cross_entropy(self.fc(F.max_pool2d(h, 2).flatten(1)), y)


class CounterBuffer(nn.Module):
    """A buffer written in forward shifts the indices of the training metadata by one."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4, bias=False)
        self.c = nn.Linear(4, 4, bias=False)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x, y):
        self.seen.add_(1.0)
        return F.mse_loss(self.c(torch.tanh(self.b(torch.tanh(self.a(x))))), y)


class AvgPool(nn.Module):
    """Its backward has no kernel."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.pool = nn.AvgPool2d(2)
        self.fc = nn.Linear(12, 2)

    def forward(self, x, y):
        return F.cross_entropy(self.fc(self.pool(torch.relu(self.conv(x))).flatten(1)), y)


class PadBetween(nn.Module):
    """The backward of a pad is a pad by negative amounts, which the kernel refuses."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 5)
        self.b = nn.Linear(8, 2)

    def forward(self, x, y):
        return F.cross_entropy(self.b(F.pad(self.a(x), (1, 2))), y)


class Mlp(nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.a = nn.Linear(6, 8, dtype=dtype)
        self.b = nn.Linear(8, 3, dtype=dtype)

    def forward(self, x, y):
        return ((self.b(torch.tanh(self.a(x))) - y) ** 2).mean()


def _mlp_case(dtype):
    return Mlp(dtype), lambda: (torch.randn(4, 6, dtype=dtype), torch.randn(4, 3, dtype=dtype))


CASES = {
    "seed_cnn": lambda: (
        SeedCnn(),
        lambda: (torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))),
    ),
    "healthy": lambda: (
        Healthy(),
        lambda: (
            torch.randn(3, 4, 15, 13),
            torch.tensor([[1, 1, 0], [3, 1, 3], [6, 0, 0]]),
            torch.tensor([0, 1, 0]),
        ),
    ),
    "dropout_pool": lambda: (
        DropoutPool(),
        lambda: (torch.randn(4, 2, 8, 8), torch.randint(0, 3, (4,))),
    ),
    "counter_buffer": lambda: (
        CounterBuffer(),
        lambda: (torch.randn(5, 4), torch.randn(5, 4)),
    ),
    "avg_pool": lambda: (
        AvgPool(),
        lambda: (torch.randn(3, 2, 6, 6), torch.randint(0, 2, (3,))),
    ),
    "pad_between": lambda: (
        PadBetween(),
        lambda: (torch.randn(3, 4), torch.randint(0, 2, (3,))),
    ),
    "mlp_f64": lambda: _mlp_case(torch.float64),
    "mlp_f16": lambda: _mlp_case(torch.float16),
    "mlp_bf16": lambda: _mlp_case(torch.bfloat16),
    "wrong_metadata": lambda: _mlp_case(torch.float32),
    "metadata_beyond": lambda: _mlp_case(torch.float32),
    "dynamic": lambda: (Mlp(), lambda: (torch.randn(4, 6), torch.randn(4, 3))),
}


def _array(tensor):
    tensor = tensor.detach().clone()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _eager(module, inputs):
    facts = {}
    losses = []
    parameters = dict(module.named_parameters())
    for step in range(STEPS):
        loss = module(*inputs)
        module.zero_grad()
        loss.backward()
        losses.append(float(loss))
        for name, parameter in parameters.items():
            facts[f"parameter/{step}/{name}"] = _array(parameter)
            facts[f"gradient/{step}/{name}"] = _array(parameter.grad)
        with torch.no_grad():
            for parameter in parameters.values():
                parameter -= LEARNING_RATE * parameter.grad
    facts["losses"] = numpy.array(losses)
    return facts


def _shifted_metadata(name):
    """Gradients one output too late, or parameters beyond the last output."""
    import executorch.exir.emit._emit_program as emit

    shifts = {"wrong_metadata": ("gradients", 1), "metadata_beyond": ("parameters", 9)}
    if name not in shifts:
        return contextlib.nullcontext()
    kind, shift = shifts[name]
    original = emit._get_training_metadata

    def shifted(methods):
        metadata = original(methods)
        metadata[f"__et_training_{kind}_index_forward"] += shift
        return metadata

    return mock.patch.object(emit, "_get_training_metadata", shifted)


def build(name, folder):
    from executorch.exir import to_edge
    from torch.export import Dim, export
    from torch.export.experimental import _export_forward_backward

    make = CASES[name]
    torch.manual_seed(0)
    module, make_inputs = make()
    torch.manual_seed(1)
    inputs = make_inputs()
    dynamic = None
    if name == "dynamic":
        batch = Dim("batch", min=2, max=16)
        dynamic = ({0: batch}, {0: batch})
    joint = _export_forward_backward(export(module, inputs, strict=False, dynamic_shapes=dynamic))
    with _shifted_metadata(name):
        program = to_edge(joint).to_executorch().buffer
    (folder / f"{name}.pte").write_bytes(program)
    facts = _eager(module, inputs)
    for index, value in enumerate(inputs):
        if value.dtype == torch.bfloat16:
            facts[f"input/{index}/bfloat16"] = value.view(torch.int16).numpy()
        else:
            facts[f"input/{index}/{str(value.dtype).removeprefix('torch.')}"] = value.numpy()
    # Last, and in one piece: this file says that the case is complete.
    numpy.savez(folder / f".{name}.npz", **facts)
    os.replace(folder / f".{name}.npz", folder / f"{name}.npz")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in sys.argv[2:]:
        build(case, Path(sys.argv[1]))
