"""Does convolution add up half-precision products in float?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator, half_errors, judge_half

__all__ = ["PROBE"]


def _inputs(dtype: Any) -> tuple[Any, ...]:
    import torch

    random = generator()
    x = (torch.rand(1, 128, 5, 5, generator=random) + 0.5).to(dtype)
    weight = (torch.rand(3, 128, 3, 3, generator=random) + 0.5).to(dtype)
    return x, weight


def measure(load: Load) -> Figures:
    import torch

    def operation(x: Any, weight: Any) -> Any:
        return torch.ops.aten.convolution(x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)

    return half_errors(load, operation, _inputs)


def judge(figures: Figures) -> Judgement:
    return judge_half(figures, "convolution of 1152 terms")


PROBE = Probe("convolve half-precision positive values, 1152 terms each", measure, judge)
