"""Does the weight gradient of convolution add up half-precision products in float?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator, half_errors, judge_half

__all__ = ["PROBE"]


def _inputs(dtype: Any) -> tuple[Any, ...]:
    import torch

    random = generator()
    gradient = (torch.rand(2, 4, 32, 32, generator=random) + 0.5).to(dtype)
    x = (torch.rand(2, 3, 32, 32, generator=random) + 0.5).to(dtype)
    weight = (torch.rand(4, 3, 1, 1, generator=random) + 0.5).to(dtype)
    return gradient, x, weight


def measure(load: Load) -> Figures:
    import torch

    def operation(gradient: Any, x: Any, weight: Any) -> Any:
        return torch.ops.aten.convolution_backward(
            gradient, x, weight, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]
        )[1]

    return half_errors(load, operation, _inputs)


def judge(figures: Figures) -> Judgement:
    return judge_half(figures, "weight gradient of 2048 terms")


PROBE = Probe(
    "weight gradient of a 1x1 convolution over 2048 half-precision places", measure, judge
)
