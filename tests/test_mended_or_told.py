"""What a check says where the export mends it, and where nothing can be checked."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import graphcheck
from graphcheck.errors import ModelError
from graphcheck.workload.load import from_module


class Averaging(nn.Module):
    def __init__(self, momentum: float | None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4, momentum=momentum)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x)).pow(2).mean()


def test_a_batch_norm_that_averages_all_batches_is_mended_by_export() -> None:
    report = graphcheck.check(Averaging(None), (torch.randn(2, 3, 6, 6),))
    found = {finding.code: finding for finding in report.findings}
    assert not report.failed
    assert [(m.name, m.exact) for m in found["GC004"].mends] == [("cumulative-average", True)]
    assert "GC501" in found
    assert report.next_command.startswith("graphcheck.export")
    plain = graphcheck.check(Averaging(0.1), (torch.randn(2, 3, 6, 6),))
    assert "GC004" not in {finding.code for finding in plain.findings}


class Predicting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x)


def test_a_label_that_is_no_class_is_told_at_once() -> None:
    x = torch.randn(2, 4)
    with pytest.raises(ModelError) as told:
        from_module(Predicting(), (x,), loss="cross_entropy", targets=torch.tensor([0, 9]))
    assert told.value.code == "GC002"
    assert told.value.message == (
        "the loss cannot be computed on the example targets: IndexError: Target 9 is out of bounds."
    )
    assert from_module(Predicting(), (x,), loss="cross_entropy", targets=torch.tensor([0, 2]))
