"""Does scatter_add add up half-precision values in float?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator, half_errors, judge_half

__all__ = ["PROBE"]


def _inputs(dtype: Any) -> tuple[Any, ...]:
    import torch

    random = generator()
    values = (torch.rand(1024, 4, generator=random) + 0.5).to(dtype)
    rows = torch.zeros(1024, 4, dtype=torch.long)
    return torch.zeros(2, 4, dtype=dtype), rows, values


def measure(load: Load) -> Figures:
    import torch

    def operation(x: Any, rows: Any, values: Any) -> Any:
        return torch.ops.aten.scatter_add(x, 0, rows, values)

    return half_errors(load, operation, _inputs)


def judge(figures: Figures) -> Judgement:
    return judge_half(figures, "scatter_add of 1024 values into one row")


PROBE = Probe("add 1024 half-precision positive values into one row", measure, judge)
