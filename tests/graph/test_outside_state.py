"""Globals and attributes of classes that forward changes: told where they matter, put back."""

from __future__ import annotations

import copy
import importlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from graphcheck.graph.custom_functions import lost_backward
from graphcheck.graph.gradient_hooks import lost_hooks
from graphcheck.graph.precheck import precheck
from graphcheck.graph.python_draws import frozen_draws
from graphcheck.graph.python_state import frozen_state
from graphcheck.workload.types import Workload

STEP = 0
SEEN = 0
STATE: dict[str, Any] = {"n": 0, "other": "x"}
LOG: list[int] = []
HELD: Tensor | None = None
CACHE: dict[int, Tensor] = {}
CONFIG = types.SimpleNamespace(step=0)
TOTAL = np.zeros(1)
X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Base(nn.Module):
    count = 0
    entries: list[int] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(4, 3)

    def loss(self, x: Tensor) -> Tensor:
        return self.fc(x).square().mean()


class Global(Base):
    def forward(self, x: Tensor) -> Tensor:
        global STEP
        STEP += 1
        return self.loss(x) / STEP


class WarmingUp(Base):
    def forward(self, x: Tensor) -> Tensor:
        global STEP
        STEP += 1
        return self.loss(x) * (0.1 if STEP < 50 else 1.0)


def tick() -> int:
    STATE["n"] += 1
    return int(STATE["n"])


class ByAFunction(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) * tick()


class EntryWarmingUp(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) * (0.1 if tick() < 50 else 1.0)


class Listed(Base):
    def forward(self, x: Tensor) -> Tensor:
        LOG.append(1)
        return self.loss(x) * len(LOG)


class Recurrent(Base):
    def forward(self, x: Tensor) -> Tensor:
        global HELD
        h = self.fc(x) if HELD is None else self.fc(x) + HELD
        HELD = h.detach()
        return h.square().mean()


class OfItsClass(Base):
    def forward(self, x: Tensor) -> Tensor:
        OfItsClass.count += 1
        return self.loss(x) / OfItsClass.count


class OfTheType(Base):
    def forward(self, x: Tensor) -> Tensor:
        type(self).count += 1
        return self.loss(x) / self.count


class OfTheTypeWarmingUp(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.__class__.count += 1
        return self.loss(x) * (0.1 if self.count < 50 else 1.0)


class ByAClassMethod(Base):
    @classmethod
    def tick(cls) -> int:
        cls.count += 1
        return cls.count

    def forward(self, x: Tensor) -> Tensor:
        return self.loss(x) / self.tick()


class OfItsBase(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.entries.append(1)
        return self.loss(x) * len(self.entries)


class FromADefault(Base):
    """An attribute of the instance from the first step on; the class has where it starts."""

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.loss(x) * (0.1 if self.count < 50 else 1.0)


class OfAnObject(Base):
    def forward(self, x: Tensor) -> Tensor:
        CONFIG.step += 1
        return self.loss(x) / CONFIG.step


class Array(Base):
    def forward(self, x: Tensor) -> Tensor:
        TOTAL[0] += 1
        return self.loss(x) / float(TOTAL[0])


class Printed(Base):
    def forward(self, x: Tensor) -> Tensor:
        global SEEN
        SEEN += 1
        if SEEN % 10 == 0:
            print(f"step {SEEN}")
        LOG.append(SEEN)
        type(self).count += 1
        return self.loss(x)


class Cached(Base):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] not in CACHE:
            CACHE[x.shape[0]] = torch.arange(4.0)
        return self.loss(x + CACHE[x.shape[0]])


class OnlyRead(Base):
    def forward(self, x: Tensor) -> Tensor:
        STEP = 3
        return self.loss(x) * (STEP + STATE["n"])


class Rounding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


class WithAFunction(Global):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(Rounding.apply(x))


def _globals() -> dict[str, Any]:
    names = ("STEP", "SEEN", "STATE", "LOG", "HELD", "CACHE", "CONFIG", "TOTAL")
    return {name: globals()[name] for name in names}


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """After each test all is as it was, in the same objects."""
    before, contents = _globals(), copy.deepcopy(_globals())
    kinds = [Base, *Base.__subclasses__()]
    classes = [dict(vars(kind)) for kind in kinds]
    yield
    assert all(value is before[name] for name, value in _globals().items())
    assert _globals() == contents
    assert [dict(vars(kind)) for kind in kinds] == classes
    assert Base.entries == []


@pytest.mark.parametrize(
    ("kind", "name", "later", "line"),
    [
        (Global, "STEP", 1, "STEP += 1"),
        (WarmingUp, "STEP", 99, "STEP += 1"),
        (ByAFunction, "STATE", 1, 'STATE["n"] += 1'),
        (EntryWarmingUp, "STATE", 99, 'STATE["n"] += 1'),
        (Listed, "LOG", 1, "LOG.append(1)"),
        (Recurrent, "HELD", 1, "HELD = h.detach()"),
        (OfItsClass, "OfItsClass.count", 1, "OfItsClass.count += 1"),
        (OfTheType, "OfTheType.count", 1, "type(self).count += 1"),
        (
            OfTheTypeWarmingUp,
            "OfTheTypeWarmingUp.count",
            99,
            "self.__class__.count += 1",
        ),
        (ByAClassMethod, "ByAClassMethod.count", 1, "cls.count += 1"),
        (OfItsBase, "Base.entries", 1, "self.entries.append(1)"),
        (FromADefault, "count", 99, "self.count += 1"),
        (OfAnObject, "CONFIG.step", 1, "CONFIG.step += 1"),
        (Array, "TOTAL", 1, "TOTAL[0] += 1"),
    ],
)
def test_what_matters_is_told(kind: type[Base], name: str, later: int, line: str) -> None:
    found = frozen_state(Workload(kind(), (X,), root_type=kind.__name__))
    assert found is not None
    assert (found.names, found.later) == ((name,), later)
    assert Path(found.file) == Path(__file__)
    assert Path(__file__).read_text().splitlines()[found.line - 1].strip() == line


@pytest.mark.parametrize("kind", [Printed, Cached, OnlyRead])
def test_what_does_not_matter_is_not(kind: type[Base]) -> None:
    assert frozen_state(Workload(kind(), (X,), root_type=kind.__name__)) is None


def test_the_sentence() -> None:
    (problem,) = precheck(Workload(WarmingUp(), (X,), root_type="WarmingUp"))
    assert problem.message.startswith(
        "Export keeps STEP as it was while tracing, but forward changes it: at step 99 the "
        "gradient of fc."
    )
    assert problem.message.endswith(
        " would be off by 0.9 of its largest entry (2 parameters are affected)."
    )


def test_a_counter_is_not_taken_for_something_else() -> None:
    """Every pass begins with the same globals, whatever it measures."""
    module = WithAFunction()
    for name in ("draws", "hooks", "function"):
        module.fc.weight.register_hook(lambda gradient: None)
        find = {"draws": frozen_draws, "hooks": lost_hooks, "function": lost_backward}[name]
        assert find(Workload(module, (X,))) is None, name  # type: ignore[operator]


def test_files_that_the_model_imports_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counted_counting.py").write_text(
        "import random\n\nN = 0\nRNG = random.Random(1)\n\n\n"
        "def tick():\n    global N\n    N += 1\n    return N\n\n\n"
        "def draw():\n    return RNG.random()\n"
    )
    (tmp_path / "counted_model.py").write_text(
        "import torch.nn as nn\nimport counted_counting\nfrom counted_counting import draw\n\n\n"
        "class Ticking(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.Linear(4, 3)\n\n"
        "    def forward(self, x):\n"
        "        return self.fc(x).square().mean() * counted_counting.tick()\n\n\n"
        "class Drawing(Ticking):\n"
        "    def forward(self, x):\n        return self.fc(x).square().mean() * draw()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    model = importlib.import_module("counted_model")
    counting = importlib.import_module("counted_counting")
    before = counting.RNG.getstate()
    (ticking,) = precheck(Workload(model.Ticking(), (X,)))
    (drawing,) = precheck(Workload(model.Drawing(), (X,)))
    assert ticking.message.startswith("Export keeps N as it was")
    assert (Path(ticking.file).name, ticking.line) == ("counted_counting.py", 9)
    assert (Path(drawing.file).name, drawing.line) == ("counted_counting.py", 14)
    assert (counting.N, counting.RNG.getstate()) == (0, before)
