"""Does BatchNorm without running statistics add up half-precision values in float?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator, half_errors, judge_half

__all__ = ["PROBE"]


def _inputs(dtype: Any) -> tuple[Any, ...]:
    import torch

    random = generator()
    return ((torch.rand(2, 4, 16, 16, generator=random) + 0.5).to(dtype),)


def measure(load: Load) -> Figures:
    import torch

    def operation(x: Any) -> Any:
        return torch.ops.aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5)[0]

    return half_errors(load, operation, _inputs)


def judge(figures: Figures) -> Judgement:
    return judge_half(figures, "_native_batch_norm_legit.no_stats over 512 terms")


PROBE = Probe("BatchNorm over 512 half-precision values", measure, judge)
