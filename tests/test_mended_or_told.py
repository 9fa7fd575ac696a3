"""What a check says where the export mends it, and where nothing can be checked."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import graphcheck
from graphcheck.errors import ModelError
from graphcheck.export.types import ExportOptions
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


class Dropping(nn.Module):
    """A loss with dropout, and a prediction that a small step does not move."""

    def __init__(self, share: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.last = nn.Linear(4, 3)
        self.drop = nn.Dropout(share)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.last(x)).pow(2).mean()

    def predict(self, x: Tensor) -> Tensor:
        return self.last(x).argmax(-1)


def _remarks(module: nn.Module, place: Path, *, inference: bool = False) -> tuple[str, ...]:
    options = ExportOptions("net", steps=2, learning_rate=1e-6, with_inference=inference)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    card = graphcheck.export(module, (x,), place, options=options).card
    assert card is not None
    return card.remarks


def test_a_card_says_what_it_does_not_prove(tmp_path: Path) -> None:
    assert _remarks(Dropping(0.0), tmp_path / "plain.pte") == ()
    drawn, still = _remarks(Dropping(0.5), tmp_path / "drawn.pte", inference=True)
    assert {drawn, still} == {
        "the program draws its own random numbers, so that the reference trace is that of one run "
        "and no other has its losses; --deterministic-dropout makes a trace that can be asserted "
        "on",
        "2 training steps did not change what predict gives: that it uses the trained weights is "
        "NOT CHECKED",
    }


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.last.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).tanh()).pow(2).mean()


def test_a_card_says_which_names_are_one_tensor(tmp_path: Path) -> None:
    assert _remarks(Tied(), tmp_path / "tied.pte") == (
        "GC504: tied weights (first): first.weight and last.weight are one tensor: the program "
        "knows it as first.weight",
    )


def test_what_the_api_raises_can_be_caught_by_name() -> None:
    with pytest.raises(graphcheck.UsageError):
        graphcheck.check(Predicting(), (torch.randn(2, 4),), loss="no_such_loss")
    for kind in (graphcheck.UsageError, graphcheck.ModelError, graphcheck.DeviceError):
        assert issubclass(kind, graphcheck.GraphcheckError)
