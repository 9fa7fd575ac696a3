"""Draws of generators that a model or its file keeps: told where they matter, with the line."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from graphcheck.graph import python_draws
from graphcheck.graph.precheck import precheck
from graphcheck.graph.python_draws import frozen_draws
from graphcheck.workload.types import Workload

RNG = np.random.default_rng(5)
OLD = random.Random(5)
X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Base(nn.Module):
    held: Any

    def __init__(self, held: Any = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(4, 3)
        self.held = held

    def loss(self, x: Tensor) -> Tensor:
        return self.fc(x).square().mean()


class Numpy(Base):
    def forward(self, x: Tensor) -> Tensor:
        gain = float(self.held.uniform(0.5, 1.5))
        return self.loss(x) * gain


class InAList(Base):
    def forward(self, x: Tensor) -> Tensor:
        first = self.held[0]
        return self.loss(x) * float(first.uniform(0.5, 1.5))


class InADict(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) * float(self.held["rng"].uniform(0.5, 1.5))


class Augmenting:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def gain(self) -> float:
        return float(self.rng.uniform(0.5, 1.5))


class InAnObject(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) * self.held.gain()


class BoundMethod(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) * float(self.held(0.5, 1.5))


def _closed_over() -> Any:
    rng = np.random.default_rng(2)

    def draw(low: float, high: float) -> float:
        return float(rng.uniform(low, high))

    return draw


class Global(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) * float(RNG.uniform(0.5, 1.5))


class GlobalOld(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) * OLD.uniform(0.5, 1.5)


class OfTheClass(Base):
    rng = np.random.RandomState(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) * float(self.rng.uniform(0.5, 1.5))


class MadeInForward(Base):
    def forward(self, x: Tensor) -> Tensor:
        rng = np.random.default_rng()
        return self.loss(x) * float(rng.uniform(0.5, 1.5))


class Rarely(Base):
    """Leaves a term out with a probability of 1 in 10,000."""

    def forward(self, x: Tensor) -> Tensor:
        loss = self.loss(x)
        return loss if self.held.random() < 1e-4 else loss * 2


class RarelyHigh(Base):
    def forward(self, x: Tensor) -> Tensor:
        loss = self.loss(x)
        return loss if self.held.random() > 1 - 1e-4 else loss * 2


class RarelyGlobal(Base):
    def forward(self, x: Tensor) -> Tensor:
        loss = self.loss(x)
        return loss if RNG.random() < 1e-4 else loss * 2


class InInit(Base):
    """Draws only when it is built."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.scale = float(self.held.uniform(0.5, 1.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) * self.scale


class Looking(Base):
    """Draws, and only keeps what it has drawn."""

    def forward(self, x: Tensor) -> Tensor:
        self.last = self.held.random() + OLD.random() + random.random()
        return self.loss(x)


class AlwaysTheSame(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) * float(np.random.default_rng(0).uniform(0.5, 1.5))


def _states(*generators: Any) -> list[str]:
    np.set_printoptions(threshold=sys.maxsize)
    try:
        return [
            str(g.getstate() if isinstance(g, random.Random) else _numpy(g)) for g in generators
        ]
    finally:
        np.set_printoptions(threshold=1000)


def _numpy(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state()


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Every generator of this file and of the process is as it was."""
    everything = (RNG, OLD, OfTheClass.rng, random._inst, np.random.mtrand._rand)  # type: ignore[attr-defined]
    before = _states(*everything)
    yield
    after = (RNG, OLD, OfTheClass.rng, random._inst, np.random.mtrand._rand)  # type: ignore[attr-defined]
    assert [*map(id, after)] == [*map(id, everything)]
    assert _states(*after) == before
    assert sys.gettrace() is None or "graphcheck" not in repr(sys.gettrace())


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (Numpy(np.random.default_rng(0)), "gain = float(self.held.uniform(0.5, 1.5))"),
        (Numpy(random.Random(3)), "gain = float(self.held.uniform(0.5, 1.5))"),
        (Numpy(np.random.RandomState(3)), "gain = float(self.held.uniform(0.5, 1.5))"),
        (
            Numpy(np.random.RandomState(np.random.PCG64(3))),
            "gain = float(self.held.uniform(0.5, 1.5))",
        ),
        (
            InAList([np.random.default_rng(0)]),
            "return self.loss(x) * float(first.uniform(0.5, 1.5))",
        ),
        (
            InAList((random.Random(0),)),
            "return self.loss(x) * float(first.uniform(0.5, 1.5))",
        ),
        (
            InADict({"rng": random.Random(0)}),
            'return self.loss(x) * float(self.held["rng"].uniform(0.5, 1.5))',
        ),
        (InAnObject(Augmenting()), "return float(self.rng.uniform(0.5, 1.5))"),
        (
            BoundMethod(random.Random(1).uniform),
            "return self.loss(x) * float(self.held(0.5, 1.5))",
        ),
        (BoundMethod(_closed_over()), "return float(rng.uniform(low, high))"),
        (
            BoundMethod(functools.partial(random.Random.uniform, random.Random(4))),
            "return self.loss(x) * float(self.held(0.5, 1.5))",
        ),
        (Global(), "return self.loss(x) * float(RNG.uniform(0.5, 1.5))"),
        (GlobalOld(), "return self.loss(x) * OLD.uniform(0.5, 1.5)"),
        (OfTheClass(), "return self.loss(x) * float(self.rng.uniform(0.5, 1.5))"),
        (MadeInForward(), "rng = np.random.default_rng()"),
        (Rarely(random.Random(3)), "return loss if self.held.random() < 1e-4 else loss * 2"),
        (
            Rarely(np.random.default_rng(3)),
            "return loss if self.held.random() < 1e-4 else loss * 2",
        ),
        (
            RarelyHigh(np.random.default_rng(3)),
            "return loss if self.held.random() > 1 - 1e-4 else loss * 2",
        ),
        (RarelyGlobal(), "return loss if RNG.random() < 1e-4 else loss * 2"),
    ],
)
def test_draws_are_told_with_their_line(module: Base, line: str) -> None:
    (problem,) = precheck(Workload(module, (X,), root_type=type(module).__name__))
    assert problem.code == "GC016"
    assert problem.message.startswith(
        "Export keeps what forward draws from Python's or NumPy's random numbers as it was while "
        "tracing: with other draws the gradient of fc."
    )
    assert Path(problem.file) == Path(__file__)
    assert Path(__file__).read_text().splitlines()[problem.line - 1].strip() == line


@pytest.mark.parametrize("held", [np.random.default_rng(7), random.Random(7)])
def test_the_users_generator_is_as_it_was(held: Any) -> None:
    module, before = Numpy(held), _states(held)
    assert frozen_draws(Workload(module, (X,))) is not None
    assert module.held is held
    assert _states(held) == before


@pytest.mark.parametrize("module", [InInit(), Looking(random.Random(1)), AlwaysTheSame()])
def test_draws_that_change_no_gradient_are_not_told(module: Base) -> None:
    assert frozen_draws(Workload(module, (X,))) is None


def test_without_generators_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise AssertionError("a pass")

    monkeypatch.setattr(python_draws, "RandomPass", run)
    assert frozen_draws(Workload(nn.Sequential(nn.Linear(4, 3), nn.Dropout()), (X,))) is None


def test_a_model_that_fails_is_not_told() -> None:
    assert frozen_draws(Workload(Numpy(None), (X,))) is None
