"""Does GroupNorm keep its precision where the mean is large?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import judge_variance, variance_error

__all__ = ["PROBE"]


def measure(load: Load) -> Figures:
    import torch

    def operation(x: Any) -> Any:
        return torch.ops.aten.native_group_norm(x, None, None, 2, 4, 64, 2, 1e-5)[0]

    return variance_error(load, operation, (2, 4, 8, 8))


def judge(figures: Figures) -> Judgement:
    return judge_variance(figures, "native_group_norm")


PROBE = Probe("GroupNorm of data with mean 100 and deviation 0.1 against float64", measure, judge)
