"""Does dropout scale what it keeps by 1/(1-p)?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator

__all__ = ["PROBE", "measure_scale"]

_P = (0.5, 0.8)


def measure_scale(load: Load, dropout: Any) -> Figures:
    """The scale of kept entries by p; `dropout(x, p)` is the operation looked at."""
    import torch

    x = torch.rand(4096, generator=generator()) + 0.5
    outputs = load(lambda x: tuple(dropout(x, p) for p in _P), (x,))(x)
    figures = {}
    for p, output in zip(_P, outputs, strict=True):
        kept = output != 0
        # No kept entry gives NaN, which no judgement takes for right.
        figures[f"{p:g}"] = float((output[kept] / x[kept]).mean())
    return figures


def measure(load: Load) -> Figures:
    import torch

    return measure_scale(load, lambda x, p: torch.ops.aten.native_dropout(x, p, True)[0])


def judge(figures: Figures) -> Judgement:
    wrong = any(not (abs(figures[f"{p:g}"] * (1 - p) - 1) <= 1e-3) for p in _P)
    told = ", ".join(f"{figures[f'{p:g}']:.3g} at p = {p:g} (right: {1 / (1 - p):.3g})" for p in _P)
    return Judgement(wrong, f"kept output / x = {told}")


PROBE = Probe("divide what dropout keeps by its input", measure, judge)
