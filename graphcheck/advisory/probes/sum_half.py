"""Does a sum over several dims of half-precision values add up in a wider type?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator, half_errors, judge_half

__all__ = ["PROBE"]

_TERMS = 2048


def measure(load: Load) -> Figures:
    import torch

    def inputs(dtype: torch.dtype) -> tuple[Any, ...]:
        return (torch.rand((2, _TERMS // 2), generator=generator()).to(dtype),)

    return half_errors(load, lambda x: torch.ops.aten.sum.dim_IntList(x, [0, 1]), inputs)


def judge(figures: Figures) -> Judgement:
    return judge_half(figures, f"sum over two dims of {_TERMS} terms")


PROBE = Probe("a sum over two dims of 2048 positive half-precision terms", measure, judge)
