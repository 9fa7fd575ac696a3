"""Does flip read a channels-last tensor in its own order?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import relative_error

__all__ = ["PROBE", "measure_layout"]


def measure_layout(load: Load, operation: Any) -> Figures:
    """Error of an operation on a channels-last tensor of distinct values."""
    import torch

    x = torch.arange(1.0, 49.0).reshape(2, 2, 3, 4).to(memory_format=torch.channels_last)
    got = load(operation, (x,))(x)[0]
    return {"error": relative_error(got, operation(x))}


def measure(load: Load) -> Figures:
    import torch

    return measure_layout(load, lambda x: torch.ops.aten.flip(x, [3]))


def judge(figures: Figures) -> Judgement:
    error = figures["error"]
    return Judgement(
        not (error <= 1e-6),
        f"flip of a channels-last tensor: off by {error:.3g} of its largest entry",
    )


PROBE = Probe("flip a channels-last tensor of distinct values", measure, judge)
