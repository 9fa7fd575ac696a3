"""Does addmm (Linear with a bias) add up half-precision products in float?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator, half_errors, judge_half

__all__ = ["PROBE"]


def _inputs(dtype: Any) -> tuple[Any, ...]:
    import torch

    random = generator()
    left = (torch.rand(2, 2048, generator=random) + 0.5).to(dtype)
    right = (torch.rand(2048, 3, generator=random) + 0.5).to(dtype)
    return torch.zeros(3, dtype=dtype), left, right


def measure(load: Load) -> Figures:
    import torch

    def operation(bias: Any, left: Any, right: Any) -> Any:
        return torch.ops.aten.addmm(bias, left, right)

    return half_errors(load, operation, _inputs)


def judge(figures: Figures) -> Judgement:
    return judge_half(figures, "addmm of 2048 terms")


PROBE = Probe(
    "multiply half-precision matrices of positive values, 2048 terms each", measure, judge
)
