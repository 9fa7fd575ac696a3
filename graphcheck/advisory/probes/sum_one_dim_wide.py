"""Is a sum over one dim of int64 or float64 computed in that type?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe

__all__ = ["PROBE", "measure_sum"]


def measure_sum(load: Load, dims: list[int]) -> Figures:
    """What is missing from two sums that float32 cannot hold."""
    import torch

    def operation(integers: Any, doubles: Any) -> Any:
        return (
            torch.ops.aten.sum.dim_IntList(integers, dims),
            torch.ops.aten.sum.dim_IntList(doubles, dims),
        )

    integers = torch.tensor([[2**24 + 1, 1, 1]])
    doubles = torch.tensor([[1.0, 1e-9, 1e-9]], dtype=torch.float64)
    got = load(operation, (integers, doubles))(integers, doubles)
    return {
        "int64": float(got[0].flatten()[0]),
        "float64": abs(float(got[1].flatten()[0]) - (1.0 + 2e-9)),
    }


def measure(load: Load) -> Figures:
    return measure_sum(load, [1])


def judge(figures: Figures) -> Judgement:
    right = 2**24 + 3
    return Judgement(
        not (figures["int64"] == right and figures["float64"] <= 1e-15),
        f"int64 2^24+1, 1, 1 over one dim gives {figures['int64']:.0f} (right: {right}); "
        f"float64 1, 1e-9, 1e-9 is off by {figures['float64']:.1g}",
    )


PROBE = Probe("sum int64 and float64 values that float32 cannot hold", measure, judge)
