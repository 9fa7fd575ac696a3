"""Python values that forward changes: told where they matter, silent where they do not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from graphcheck.graph.precheck import precheck
from graphcheck.graph.python_draws import frozen_draws
from graphcheck.graph.python_state import frozen_state
from graphcheck.workload.types import Workload


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(4, 3)
        self.count = 0
        self.seen: list[int] = [0]
        self.held: Tensor | None = None
        self.register_buffer("n", torch.tensor(1.0))

    def loss(self, x: Tensor) -> Tensor:
        return self.fc(x).square().mean()


class Counted(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.loss(x) / self.count


class Listed(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(1)
        return self.loss(x) * len(self.seen)


class Entry(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.seen[0] += 1
        return self.loss(x) * self.seen[0]


class Recurrent(Base):
    """Keeps its hidden state in an ordinary attribute."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        if self.held is not None:
            h = h + self.held
        self.held = h.detach()
        return h.square().mean()


class Added(Base):
    """Only the loss changes."""

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.loss(x) + self.count


class WarmingUp(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.loss(x) * (0.1 if self.count < 200 else 1.0)


class Skipping(Base):
    """Leaves a term out by Python's random numbers."""

    def forward(self, x: Tensor) -> Tensor:
        loss = self.loss(x)
        return loss if random.random() < 0.5 else loss * 2


class Scaled(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) * float(np.random.rand())


class Cached(Base):
    """Keeps what it has computed for others to look at."""

    def forward(self, x: Tensor) -> Tensor:
        self.held = self.fc(x)
        self.count += 1
        return self.held.square().mean()


class InABuffer(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.n += 1
        return self.loss(x) / self.n


class Fixed(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x)


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Counted()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class Summed(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).square().mean()


X = torch.linspace(-1, 1, 8).reshape(2, 4)


def _found(kind: type[nn.Module], prefix: str = "") -> object:
    return frozen_state(Workload(kind(), (X,), root_type=kind.__name__, prefix=prefix))


@pytest.mark.parametrize(
    ("kind", "name", "later"),
    [
        (Counted, "count", 1),
        (Listed, "seen", 1),
        (Entry, "seen", 1),
        (Recurrent, "held", 1),
        (Added, "count", 1),
        (WarmingUp, "count", 1000),
    ],
)
def test_what_matters_is_told(kind: type[nn.Module], name: str, later: int) -> None:
    found = _found(kind)
    assert found is not None
    assert (found.names, found.later) == ((name,), later)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Cached, InABuffer, Fixed])
def test_what_does_not_matter_is_not(kind: type[nn.Module]) -> None:
    assert _found(kind) is None


def test_the_sentence_and_its_place() -> None:
    module = Around()
    (problem,) = precheck(Workload(module, (X,), root_type="Around", prefix=""))
    assert (problem.code, problem.fatal) == ("GC016", False)
    assert problem.message == (
        "Export keeps inner.count as it was while tracing, but forward changes it: at step 1 the "
        "gradient of inner.fc.weight would be off by 1 of its largest entry (2 parameters are "
        "affected)."
    )
    assert problem.hint == (
        'Keep it in a buffer (`self.register_buffer("count", torch.tensor(0.0))`), or give it to '
        "forward as an input."
    )
    lines = Path(__file__).read_text().splitlines()
    assert Path(problem.file) == Path(__file__)
    assert lines[problem.line - 1].strip() == "self.count += 1"
    assert module.inner.count == 0
    (loss,) = precheck(Workload(Added(), (X,), root_type="Added"))
    assert "at step 1 the loss would be off by" in loss.message
    assert loss.message.endswith(" of its value.")


@pytest.mark.parametrize("kind", [Skipping, Scaled])
def test_draws_of_python_and_numpy_are_told(kind: type[nn.Module]) -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()
    (problem,) = precheck(Workload(kind(), (X,), root_type=kind.__name__))
    assert problem.code == "GC016"
    assert problem.message.startswith(
        "Export keeps what forward draws from Python's or NumPy's random numbers as it was while "
        "tracing: with other draws the gradient of fc."
    )
    assert before == (random.getstate(), np.random.get_state()[1].tolist())


def test_draws_of_torch_are_not() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    assert frozen_draws(Workload(Summed(module), (X,))) is None
