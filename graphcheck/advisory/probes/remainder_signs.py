"""Does the remainder of integers take the sign of the divisor?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe

__all__ = ["PROBE", "measure_remainder"]


def measure_remainder(load: Load, operation: Any) -> Figures:
    """How many of four remainders of 7 and -7 by 3 and -3 are wrong; `first` is -7 by 3."""
    import torch

    x = torch.tensor([-7, 7, 7, -7])
    divisor = torch.tensor([3, 3, -3, -3])
    found = load(operation, (x, divisor))(x, divisor)[0]
    truth = torch.tensor([2, 1, -2, -1])
    return {"wrong": float((found != truth).sum()), "first": float(found[0])}


def measure(load: Load) -> Figures:
    import torch

    return measure_remainder(load, torch.ops.aten.remainder.Tensor)


def judge(figures: Figures) -> Judgement:
    wrong, first = figures["wrong"], figures["first"]
    return Judgement(
        wrong != 0,
        f"remainder of -7 by 3 in int64 is {first:g} (right: 2), {wrong:.0f} of 4 signs wrong",
    )


PROBE = Probe("take remainders of integers of both signs", measure, judge)
