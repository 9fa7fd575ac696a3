"""Does a mean of half-precision values add up in a wider type?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator, half_errors, judge_half

__all__ = ["PROBE"]

_TERMS = 2048


def measure(load: Load) -> Figures:
    import torch

    def inputs(dtype: torch.dtype) -> tuple[Any, ...]:
        return (torch.rand((3, _TERMS), generator=generator()).to(dtype),)

    return half_errors(load, lambda x: torch.ops.aten.mean.dim(x, [1]), inputs)


def judge(figures: Figures) -> Judgement:
    return judge_half(figures, f"mean of {_TERMS} terms")


PROBE = Probe("a mean of 2048 positive half-precision terms", measure, judge)
