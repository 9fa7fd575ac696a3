"""Does var add up half-precision values in float?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator, half_errors, judge_half

__all__ = ["PROBE"]


def _inputs(dtype: Any) -> tuple[Any, ...]:
    import torch

    random = generator()
    return ((torch.rand(2, 2048, generator=random) + 0.5).to(dtype),)


def measure(load: Load) -> Figures:
    import torch

    def operation(x: Any) -> Any:
        return torch.ops.aten.var.correction(x, [1], correction=1)

    return half_errors(load, operation, _inputs)


def judge(figures: Figures) -> Judgement:
    return judge_half(figures, "variance of 2048 terms")


PROBE = Probe("variance of 2048 half-precision values", measure, judge)
