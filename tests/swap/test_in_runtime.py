"""Swapped models train in the runtime as in eager, and check finds nothing to mend in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphcheck
from graphcheck.errors import DeviceError
from graphcheck.options import ValidateOptions
from graphcheck.runtime.toolchain import find_compiler


class Exact(nn.Module):
    """One of each module that an exact swap replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1d = nn.Conv1d(2, 4, 3, stride=2, padding=1)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.conv2d = nn.Conv2d(1, 3, 3, padding=1)
        self.mean = nn.AvgPool2d(2)
        self.pad = nn.ZeroPad2d((1, 0, 2, 1))
        self.overlap = nn.AvgPool2d(3, 2, 1, count_include_pad=False)
        self.silu = nn.SiLU()
        self.last = nn.Conv2d(3, 4, 1)
        self.top = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = self.conv1d(x).transpose(1, 2)
        a = self.attention(a, a, a, need_weights=False)[0].mean(1)
        b = self.pad(self.mean(self.conv2d(z)))
        b = self.top(self.last(self.silu(self.overlap(b)))).flatten(1)
        return F.cross_entropy(self.head(torch.cat([a, b], 1)), y)


class Other(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.bn1 = nn.BatchNorm2d(4)
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(4, 8, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(8)
        self.pool2 = nn.MaxPool2d(3, 2, 1)
        self.fc = nn.Linear(8, 16)
        self.bn3 = nn.BatchNorm1d(16)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.pool1(torch.relu(self.bn1(self.conv(x))))
        h = self.pool2(torch.relu(self.bn2(self.conv2(h))))
        return F.cross_entropy(self.bn3(self.fc(h.mean((2, 3)))), y)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 6)
        self.out = nn.Linear(6, 9)
        self.out.weight = self.embed.weight

    def forward(self, ids: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.out(torch.tanh(self.embed(ids))).flatten(0, 1), y.flatten())


def exact_inputs() -> tuple[torch.Tensor, ...]:
    y = torch.tensor([0, 2, 1, 0])
    return torch.randn(4, 2, 11), torch.randn(4, 1, 10, 8), y


def other_inputs() -> tuple[torch.Tensor, ...]:
    return torch.randn(4, 1, 14, 12), torch.tensor([0, 2, 1, 15])


def tied_inputs() -> tuple[torch.Tensor, ...]:
    return torch.randint(0, 9, (3, 4)), torch.randint(0, 9, (3, 4))


CASES: dict[
    str, tuple[Any, Callable[[], tuple[torch.Tensor, ...]], list[str] | None, list[str]]
] = {
    "exact": (
        Exact,
        exact_inputs,
        None,
        [
            "aten._scaled_dot_product_flash_attention_for_cpu_backward",
            "aten.avg_pool2d_backward",
            "aten.constant_pad_nd",
            "aten.convolution_backward",
            "aten.empty_permuted",
        ],
    ),
    "group norm, amax and convolution": (
        Other,
        other_inputs,
        ["batch-norm-as-group-norm=2", "max-pool-as-amax", "max-pool-as-conv"],
        [
            "aten._native_batch_norm_legit_functional",
            "aten.max_pool2d_with_indices_backward",
        ],
    ),
    "frozen norm": (
        Other,
        other_inputs,
        ["frozen-batch-norm", "max-pool-as-amax", "max-pool-as-conv"],
        [],
    ),
    "folded norm": (
        Other,
        other_inputs,
        ["fold-batch-norm", "max-pool-as-amax", "max-pool-as-conv"],
        [],
    ),
    "tied": (Tied, tied_inputs, ["tied-weights-as-reuse"], ["tied weights"]),
}


def errors(module: nn.Module, inputs: Any) -> set[str]:
    report = graphcheck.check(module, inputs)
    assert not report.failed, report.findings
    return {f.subject for f in report.findings if f.code < "GC4" or f.code == "GC504"}


@pytest.mark.parametrize("name", CASES)
def test_swapped_model_trains(name: str) -> None:
    kind, make_inputs, swaps, found = CASES[name]
    torch.manual_seed(0)
    model, inputs = kind(), make_inputs()
    if found:
        assert set(found) <= errors(model, inputs)
    model = graphcheck.make_trainable(model, swaps).module
    assert errors(model, inputs) == set()
    try:
        find_compiler()
    except DeviceError as error:
        pytest.skip(error.message)
    verdict = graphcheck.validate(
        model, inputs, options=ValidateOptions(target=name, steps=8, learning_rate=0.05)
    )
    assert verdict.verdict == "match", verdict.reason
