"""GC3 and GC4 on traced models: the joint graph's own ops, arguments and example data."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from advised_graphs import context
from torch import nn

from graphcheck.graph.capture import capture
from graphcheck.rules.dedupe import deduplicate
from graphcheck.rules.interface import Context, rule_by_code
from graphcheck.rules.types import Severity
from graphcheck.workload.types import Workload

CODES = ("GC301", "GC302", "GC401", "GC402", "GC403")


class Training(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).float().square().mean()


def found(module: nn.Module, x: torch.Tensor) -> list[tuple[str, Severity, str, str]]:
    graph = capture(Workload(module=module, inputs=(x,)))
    # The shipped opset is not needed: all kernels of the advisories are there.
    given: Context = context()
    findings: list[Any] = []
    for code in CODES:
        rule = rule_by_code(code)
        assert rule is not None
        findings.extend(rule.check(graph, given))
    return [
        (f.code, f.severity, f.subject.removeprefix("aten."), f.module)
        for f in deduplicate(findings)
    ]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def test_healthy_norms_are_silent() -> None:
    model = Training(
        nn.Conv2d(3, 8, 3),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.InstanceNorm2d(8),
        nn.Flatten(),
        nn.Linear(288, 32),
        nn.LayerNorm(32),
    )
    assert found(model, random(2, 3, 8, 8)) == []


def test_a_norm_of_data_far_from_zero_is_an_error() -> None:
    model = Training(nn.LayerNorm(16), nn.Linear(16, 4))
    assert found(model, 500 + random(4, 16)) == [
        ("GC402", Severity.ERROR, "native_layer_norm", "layers.0")
    ]
    assert found(model, random(4, 16)) == []


def test_max_pool_behind_and_before_what_is_trained() -> None:
    behind = Training(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2))
    assert found(behind, random(2, 3, 8, 8)) == [
        ("GC301", Severity.ERROR, "max_pool2d_with_indices_backward", "layers.1")
    ]
    first = Training(nn.MaxPool2d(2), nn.Conv2d(3, 4, 3))
    assert all(severity is Severity.NOTE for _, severity, *_ in found(first, random(2, 3, 8, 8)))


def test_dropout_in_training_and_in_evaluation() -> None:
    model = Training(nn.Linear(6, 6), nn.Dropout(0.5))
    assert found(model, random(4, 6)) == [("GC301", Severity.ERROR, "native_dropout", "layers.1")]
    assert found(model.eval(), random(4, 6)) == []


def test_half_precision_linear_by_its_size() -> None:
    large = Training(nn.Linear(512, 4)).to(torch.bfloat16)
    assert found(large, random(2, 512).bfloat16()) == [
        ("GC401", Severity.WARNING, "addmm", "layers.0")
    ]
    small = Training(nn.Linear(8, 4)).to(torch.bfloat16)
    assert found(small, random(2, 8).bfloat16()) == []
    without_bias = Training(nn.Linear(512, 4, bias=False)).to(torch.bfloat16)
    assert found(without_bias, random(2, 512).bfloat16()) == []


def test_wide_layer_norm_in_half_precision() -> None:
    model = Training(nn.Linear(8, 256), nn.LayerNorm(256)).to(torch.bfloat16)
    assert found(model, random(2, 8).bfloat16()) == [
        ("GC301", Severity.ERROR, "native_layer_norm", "layers.1")
    ]
