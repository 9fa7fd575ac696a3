"""Does index_put with accumulate add up half-precision values in float?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator, half_errors, judge_half

__all__ = ["PROBE"]


def _inputs(dtype: Any) -> tuple[Any, ...]:
    import torch

    random = generator()
    values = (torch.rand(1024, 4, generator=random) + 0.5).to(dtype)
    rows = torch.zeros(1024, dtype=torch.long)
    return torch.zeros(2, 4, dtype=dtype), rows, values


def measure(load: Load) -> Figures:
    import torch

    def operation(x: Any, rows: Any, values: Any) -> Any:
        return torch.ops.aten.index_put(x, [rows], values, True)

    return half_errors(load, operation, _inputs)


def judge(figures: Figures) -> Judgement:
    return judge_half(figures, "index_put of 1024 values into one row")


PROBE = Probe("add 1024 half-precision positive values into one row", measure, judge)
