"""Sizes that depend on the data: what the check says of them, and what export makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import graphcheck
from graphcheck.export.types import ExportOptions
from graphcheck.options import ValidateOptions
from graphcheck.rules.types import Finding
from graphcheck.runtime.lower import lower
from graphcheck.validate.run import validate_workload
from graphcheck.workload.load import from_module


class Selecting(nn.Module):
    """A head on what `select` takes of the hidden features."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hidden = nn.Linear(4, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return self.select(torch.tanh(self.hidden(x)), labels).pow(2).mean()

    def select(self, h: Tensor, labels: Tensor) -> Tensor:
        raise NotImplementedError


class MaskAfterHead(Selecting):
    def select(self, h: Tensor, labels: Tensor) -> Tensor:
        return self.head(h)[labels >= 0]


class MaskBeforeHead(Selecting):
    def select(self, h: Tensor, labels: Tensor) -> Tensor:
        return self.head(h[labels >= 0])


class Nonzero(Selecting):
    def select(self, h: Tensor, labels: Tensor) -> Tensor:
        return self.head(h)[torch.nonzero(labels >= 0).squeeze(1)]


class NonzeroViewed(Selecting):
    def select(self, h: Tensor, labels: Tensor) -> Tensor:
        return self.head(h)[torch.nonzero(labels >= 0).flatten()]


class Where(Selecting):
    def select(self, h: Tensor, labels: Tensor) -> Tensor:
        rows, columns = torch.where(h.detach() > 0)
        return h[rows, columns].sum() * self.head(h)


class Longest(Selecting):
    def select(self, h: Tensor, labels: Tensor) -> Tensor:
        return self.head(h)[:, : labels.max().item()]


class Repeated(Selecting):
    def select(self, h: Tensor, labels: Tensor) -> Tensor:
        return self.head(torch.repeat_interleave(h, labels.clamp(min=0), dim=0))


class AtLeastOne(Selecting):
    def select(self, h: Tensor, labels: Tensor) -> Tensor:
        found = self.head(h)[labels >= 0]
        return found / max(1, found.shape[0])


X = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
LABELS = torch.tensor([0, 1, 2, -100, 1, 0])


def _found(module: nn.Module) -> dict[str, Finding]:
    return {finding.code: finding for finding in graphcheck.check(module, (X, LABELS)).findings}


@pytest.mark.parametrize("model", [MaskAfterHead, NonzeroViewed])
def test_a_size_that_lowers_is_a_note(model: type[nn.Module]) -> None:
    found = _found(model())
    assert set(found) == {"GC510"}
    assert found["GC510"].message == (
        "makes a size that depends on the data: memory is planned for the most, 6, and training "
        "is checked with that of the example data alone"
    )


def test_what_only_the_ir_check_refuses_is_a_note_and_trains_right(tmp_path: Path) -> None:
    found = _found(AtLeastOne())
    assert set(found) == {"GC104", "GC510"}
    assert found["GC104"].message == (
        "makes a size that to_edge's IR check refuses, although the runtime can run it"
    )
    assert _exported(AtLeastOne(), tmp_path) == "match"


def _exported(module: nn.Module, folder: Path) -> str:
    """The verdict of an export that trains for three steps."""
    options = ExportOptions(target="model", steps=3)
    result = graphcheck.export(module, (X, LABELS), folder / "model.pte", options=options)
    assert result.failure == ""
    assert result.card is not None
    return result.card.verdict


@pytest.mark.parametrize(
    ("model", "code", "mend", "message"),
    [
        (
            MaskBeforeHead,
            "GC105",
            "not-empty",
            "makes a size that leaves the memory layout of a tensor after it open, where "
            "to_executorch stops",
        ),
        (
            Nonzero,
            "GC205",
            "nonzero_mask",
            "is refused in the first step (0x12): the kernel takes the default memory layout only "
            "(here default and dim order 1, 0)",
        ),
        (
            Where,
            "GC205",
            "nonzero_mask",
            "is refused in the first step (0x12): its tensors are not in one memory layout, the "
            "default or channels-last (here default and dim order 1, 0)",
        ),
    ],
)
def test_what_export_mends_is_told_and_then_trains_right(
    tmp_path: Path, model: type[nn.Module], code: str, mend: str, message: str
) -> None:
    found = _found(model())
    assert set(found) - {"GC207"} == {code, "GC510"}
    assert ("GC207" in found) is (model is MaskBeforeHead)
    assert found[code].message == message
    assert [(m.name, m.exact) for m in found[code].mends] == [(mend, True)]
    assert _exported(model(), tmp_path) == "match"


def test_a_product_over_nothing_gives_no_gradient(tmp_path: Path) -> None:
    class Summed(MaskBeforeHead):
        def forward(self, x: Tensor, labels: Tensor) -> Tensor:
            return self.select(torch.tanh(self.hidden(x)), labels).pow(2).sum()

    nothing = torch.full_like(LABELS, -100)
    found = {f.code: f for f in graphcheck.check(Summed(), (X, nothing)).findings}
    assert found["GC207"].message == (
        "leaves its result unwritten where nothing is selected: a gradient is then what was in "
        "memory before"
    )
    assert [(m.name, m.exact) for m in found["GC207"].mends] == [("mm_not_empty", True)]
    workload = from_module(Summed(), (X, nothing))
    options = ValidateOptions(target="model", steps=3)
    as_it_is = validate_workload(workload, options, lowered=lower(workload, settle=True))
    assert as_it_is.verdict == "diverged"
    options = ExportOptions(target="model", steps=3)
    place = tmp_path / "model.pte"
    result = graphcheck.export(Summed(), (X, nothing), place, options=options)
    assert result.card is not None
    assert result.card.verdict == "match"


def test_the_stock_flow_stops_at_a_layout_that_the_size_leaves_open() -> None:
    stock = graphcheck.validate(MaskBeforeHead(), (X, LABELS))
    assert (stock.verdict, stock.reason) == (
        "not run",
        "to_executorch cannot tell the memory layout of a tensor with a size that depends on the "
        "data",
    )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            Longest,
            "cannot be lowered: to_edge stops at aten.slice.Tensor (test_data_sizes.py:{line}): "
            "it has to know a number that depends on the data",
        ),
        (
            Repeated,
            "cannot be lowered: to_executorch cannot plan memory for a size that depends on the "
            "data and has no upper bound",
        ),
    ],
)
def test_what_cannot_be_lowered_is_an_error_of_the_check(
    tmp_path: Path, model: type[Any], message: str
) -> None:
    found = _found(model())
    line = model.select.__code__.co_firstlineno + 1
    assert found["GC105"].message == message.format(line=line)
    assert [m.exact for m in found["GC105"].mends] == [False]
    result = graphcheck.export(model(), (X, LABELS), tmp_path / "model.pte")
    assert result.failure == found["GC105"].message.removeprefix("cannot be lowered: ")
    assert not (tmp_path / "model.pte").exists()
