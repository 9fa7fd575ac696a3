"""Does a buffer that forward writes start with its own values?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import lower_training, start

__all__ = ["PROBE", "measure_initial"]

_INITIAL = 7.0


def measure_initial(**config: Any) -> Figures:
    """The value of a buffer at the first run; `config` is the backend configuration's."""
    import torch

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)
            self.register_buffer("state", torch.full((1,), _INITIAL))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            before = self.state + 0.0
            self.state.add_(1.0)
            return self.linear(x).square().mean(), before

    x = torch.ones(2, 3)
    module = start(lower_training(Net(), (x,), **config))
    return {"state": float(module.forward([x])[1])}


def measure(load: Load) -> Figures:
    return measure_initial()


def judge(figures: Figures) -> Judgement:
    state = figures["state"]
    return Judgement(
        state != _INITIAL, f"a buffer of initial value {_INITIAL:g} starts as {state:g}"
    )


PROBE = Probe("read a mutated buffer in the first run", measure, judge)
