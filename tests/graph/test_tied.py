"""Tied weights are one parameter, whichever way they are exported, and keep assigned buffers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import graphcheck
from graphcheck.errors import ModelError
from graphcheck.graph import capture
from graphcheck.graph.assigned_buffers import dropped_assignments
from graphcheck.graph.capture import exported_program, trace
from graphcheck.graph.tied import merge_tied_
from graphcheck.graph.trace import export
from graphcheck.workload.types import Workload

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.last.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).tanh()).pow(2).mean()


class Centred(Tied):
    """And a running mean that is replaced, as no operator in place would."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.full((4,), 0.5))
        self.mean: Tensor

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        self.mean = 0.5 * self.mean + 0.5 * h.detach().mean(0)
        return self.last(h - self.mean).pow(2).mean()


class InPlace(Centred):
    """The same mean, written in place, and a buffer that nobody writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(4))
        self.scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        self.mean.copy_(0.5 * self.mean + 0.5 * h.detach().mean(0))
        return self.last(h - self.mean).mul(self.scale).pow(2).mean()


def workload(kind: type[nn.Module]) -> Workload:
    return Workload(kind(), (X,), root_type=kind.__name__, target="model.py")


def test_strict_export_drops_an_assignment() -> None:
    subject = workload(Centred)
    assert dropped_assignments(export(subject, strict=True), subject) == ("mean",)
    assert dropped_assignments(export(subject, strict=False), subject) == ()
    assert torch.equal(subject.module.mean, torch.full((4,), 0.5))


@pytest.mark.parametrize("kind", [Tied, InPlace])
def test_and_keeps_what_is_written_in_place(kind: type[nn.Module]) -> None:
    subject = workload(kind)
    assert dropped_assignments(export(subject, strict=True), subject) == ()
    assert exported_program(subject)[1]


def test_the_other_names_are_no_inputs() -> None:
    subject = workload(Tied)
    exported = export(subject, strict=False)
    assert list(exported.graph_signature.parameters) == [
        "first.weight", "first.bias", "last.weight", "last.bias",
    ]  # fmt: skip
    merge_tied_(exported, subject.module)
    assert list(exported.graph_signature.parameters) == ["first.weight", "first.bias", "last.bias"]
    assert len([n for n in exported.graph.nodes if n.op == "placeholder"]) == 4
    assert torch.equal(exported.module()(X), subject.module(X))


@pytest.mark.parametrize("kind", [Tied, Centred])
def test_every_parameter_has_its_gradient(kind: type[nn.Module]) -> None:
    subject = workload(kind)
    traced = trace(subject)
    assert traced.strict is (kind is Tied)
    assert traced.no_gradient == ()
    gradients = [
        spec.target
        for spec in traced.joint.graph_signature.output_specs
        if spec.kind.name == "GRADIENT_TO_PARAMETER"
    ]
    assert gradients == ["first.weight", "first.bias", "last.bias"]


def test_where_strict_export_fails_they_are_one_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(subject: Workload, *, strict: bool) -> object:
        if strict:
            raise RuntimeError("strict export does not know this")
        return export(subject, strict=False)

    monkeypatch.setattr(capture, "export", failing)
    traced = trace(workload(Tied))
    assert (traced.strict, traced.no_gradient) == (False, ())


def test_a_program_that_somebody_exported() -> None:
    subject = workload(Tied)
    given = dataclasses.replace(subject, exported=export(subject, strict=False))
    assert trace(given).no_gradient == ()


def test_an_assignment_that_no_export_keeps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(subject: Workload, *, strict: bool) -> object:
        if not strict:
            raise RuntimeError("non-strict export does not know this\nand more")
        return export(subject, strict=True)

    monkeypatch.setattr(capture, "export", failing)
    with pytest.raises(ModelError) as caught:
        exported_program(workload(Centred))
    assert (caught.value.message, caught.value.hint, caught.value.code) == (
        "strict export drops what forward assigns to the buffer mean, and export with the "
        "assignment fails: RuntimeError: non-strict export does not know this and more",
        "Write it in place, which is kept: self.mean.copy_(...).",
        "GC003",
    )


@pytest.mark.parametrize("kind", [Tied, Centred, InPlace])
def test_they_train_in_the_runtime(kind: type[nn.Module], tmp_path: Path) -> None:
    card = graphcheck.export(kind(), (X,), tmp_path / "model.pte").card
    assert card.verdict == "match"
    assert card.parameters == ("first.weight", "first.bias", "last.bias")
    assert card.mutated_buffers == (() if kind is Tied else ("mean",))
