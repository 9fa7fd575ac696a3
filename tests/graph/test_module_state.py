"""What forward changes in a module can be put back: values, bindings and generators."""

from __future__ import annotations

import random
from collections import deque

import numpy as np
import torch
from torch import Tensor, nn

from graphcheck.graph.module_state import ModuleState


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.mean: Tensor
        self.register_buffer("absent", None)
        self.held = torch.ones(2)


class Everything(nn.Module):
    """One of each kind of state; forward changes all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.lstm = nn.LSTM(3, 2)
        self.register_buffer("count", torch.tensor(0))
        self.count: Tensor
        self.n = 0
        self.seen: list[object] = [0, torch.zeros(2)]
        self.last: deque[int] = deque([1], maxlen=2)
        self.names = {"a"}
        self.table: dict[str, object] = {"x": [1], "y": torch.zeros(1)}
        self.pair = (torch.zeros(1), 2)
        self.numpy = np.random.default_rng(0)
        self.old = np.random.RandomState(0)
        self.python = random.Random(0)
        self.torch = torch.Generator().manual_seed(0)
        self.other = np.random.RandomState(np.random.PCG64(0))
        self.system = random.SystemRandom()
        self.array = np.zeros(2)

    def draws(self) -> tuple[object, ...]:
        return (
            self.numpy.random(),
            self.old.rand(),
            self.python.random(),
            self.other.rand(),
            float(torch.rand((), generator=self.torch)),
        )

    def forward(self) -> tuple[object, ...]:
        self.count += 1
        self.inner.mean = self.inner.mean + 1
        self.inner.held.add_(1)
        self.inner.held = self.inner.held * 2
        self.n += 1
        self.seen[0] = 5
        self.seen[1].add_(1)  # type: ignore[attr-defined]
        self.seen.append(7)
        self.last.append(3)
        self.names.add("b")
        self.table["x"].append(2)  # type: ignore[attr-defined]
        self.table["z"] = 1
        self.table["y"] = torch.ones(1)
        self.pair[0].add_(1)
        self.fresh = 3
        self.array[0] += 1
        return self.draws()


def told(module: Everything) -> str:
    lists = (module.n, module.seen, module.last, sorted(module.names), module.table, module.pair)
    return str((module.count, module.array, module.inner.mean, module.inner.held, *lists))


def test_everything_is_put_back() -> None:
    module = Everything()
    before, seen, held = told(module), module.seen, module.inner.held
    state = ModuleState(module)
    first = module()
    assert told(module) != before
    for _ in range(2):
        state.put()
        assert told(module) == before
        assert not hasattr(module, "fresh")
        assert module.seen is seen
        assert module.inner.held is held
        assert module() == first
    later = ModuleState(module)
    state.put()
    later.put()
    assert module.fresh == 3
    assert module.n == 1
    assert (module.seen[0], module.seen[2], len(module.seen)) == (5, 7, 3)
    assert float(module.inner.mean[0]) == 1.0


def test_parameters_are_not_state() -> None:
    """Those in the lists of recurrent layers are not copied, nor put back."""
    module = Everything()
    state = ModuleState(module)
    with torch.no_grad():
        module.lstm.weight_ih_l0.fill_(3.0)
    state.put()
    assert bool((module.lstm.weight_ih_l0 == 3.0).all())
    assert module.lstm._flat_weights[0] is module.lstm.weight_ih_l0
