"""Does LayerNorm over 256 or more half-precision elements read them right?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator, half_errors, judge_half

__all__ = ["PROBE"]


def _inputs(dtype: Any) -> tuple[Any, ...]:
    import torch

    random = generator()
    return (torch.randn(4, 512, generator=random).to(dtype),)


def measure(load: Load) -> Figures:
    import torch

    def operation(x: Any) -> Any:
        return torch.ops.aten.native_layer_norm(x, [512], None, None, 1e-5)[0]

    return half_errors(load, operation, _inputs)


def judge(figures: Figures) -> Judgement:
    return judge_half(figures, "native_layer_norm of 512 normally distributed elements")


PROBE = Probe("LayerNorm of 512 normally distributed half-precision elements", measure, judge)
