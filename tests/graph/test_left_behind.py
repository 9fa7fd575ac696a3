"""Tracing leaves no tensor of its own in the model or around it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graphcheck
from graphcheck.graph.trace import export
from graphcheck.workload.types import Workload

X = torch.linspace(-1, 1, 24).reshape(6, 4)
Y = torch.tensor([0, 1, 2, 1, 0, 2])
SEEN: dict[str, Tensor] = {}


class Metric(nn.Module):
    """Keeps a metric for whoever looks at it, in an attribute, a list and a global."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)
        self.accuracy: Tensor | None = None
        self.losses: list[Tensor] = []

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        logits = self.layer(x)
        self.accuracy = (logits.argmax(1) == y).float().mean()
        loss = F.cross_entropy(logits, y)
        self.losses.append(loss.detach())
        SEEN["accuracy"] = self.accuracy
        return loss


@pytest.mark.parametrize("strict", [False, True])
def test_the_model_is_as_it_was(strict: bool) -> None:
    module = Metric()
    export(Workload(module, (X, Y)), strict=strict)
    assert module.accuracy is None
    assert module.losses == []
    assert SEEN == {}


def test_it_can_be_exported(tmp_path: Path) -> None:
    assert graphcheck.export(Metric(), (X, Y), tmp_path / "model.pte").card.verdict == "match"


def _parameters(module: nn.Module) -> list[Tensor]:
    return list(module.parameters())


class Teacher(nn.Module):
    """A frozen layer that follows the trained one, in place."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = nn.Linear(4, 3), nn.Linear(4, 3).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            for mine, theirs in zip(*map(_parameters, (self.teacher, self.student)), strict=True):
                mine.mul_(0.9).add_(theirs, alpha=0.1)
        return (self.student(x) - self.teacher(x)).square().mean()


def test_a_frozen_parameter_that_is_written_is_told() -> None:
    (finding,) = [f for f in graphcheck.check(Teacher(), (X,)).findings if f.code == "GC008"]
    assert "A frozen parameter is written in forward, which a joint graph has no" in finding.message


class Penalised(nn.Module):
    """A gradient penalty."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        y = self.layer(x).tanh()
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y.square().mean() + slope.square().mean()


def test_a_gradient_inside_forward_is_told() -> None:
    (finding,) = graphcheck.check(Penalised(), (X,)).findings
    assert finding.code == "GC003"
    assert "by a write to `.data`, or by `torch.autograd.grad` inside of it" in finding.message


class Every(nn.Module):
    """Another loss at every fourth call."""

    period = 4

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        loss = self.layer(x).square().mean()
        return loss * 2 if self.calls % self.period == 0 else loss


class EveryTenth(Every):
    period = 10


@pytest.mark.parametrize(("kind", "step"), [(Every, 3), (EveryTenth, 9)])
def test_what_happens_now_and_then_is_told(kind: type[nn.Module], step: int) -> None:
    (finding,) = [f for f in graphcheck.check(kind(), (X,)).findings if f.code == "GC016"]
    assert f"at step {step} the gradient of layer." in finding.message


class Swapped(nn.Module):
    """Two buffers change places, in an inner module."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("p", torch.zeros(4))
        self.register_buffer("q", torch.ones(4))
        self.p: Tensor
        self.q: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.p, self.q = self.q, self.p
        return x * (1 + self.p * torch.arange(4.0))


def test_buffers_that_change_places(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), Swapped(), nn.Linear(4, 2))
    result = graphcheck.export(
        module,
        (X,),
        tmp_path / "model.pte",
        loss=lambda y, t: (y - t).square().mean(),
        targets=torch.ones(6, 2),
    )
    assert result.card is not None, result.failure
    assert result.card.verdict == "match"
    assert set(result.card.mutated_buffers) == {"1.p", "1.q"}
