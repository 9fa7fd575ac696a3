"""Do numbers written in a model keep float64's digits beside float64 tensors?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import relative_error

__all__ = ["PROBE", "measure_number"]

_NUMBER = 0.3


def measure_number(load: Load, operation: Any) -> Figures:
    """Relative error of `operation`, which is x times 0.3, on float64."""
    import torch

    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    return {"error": relative_error(load(operation, (x,))(x)[0], x * _NUMBER)}


def measure(load: Load) -> Figures:
    return measure_number(load, lambda x: x * _NUMBER)


def judge(figures: Figures) -> Judgement:
    error = figures["error"]
    return Judgement(
        not (error <= 1e-12), f"float64 x times {_NUMBER:g}: relative error {error:.2g}"
    )


PROBE = Probe("multiply float64 by a number that float32 cannot hold", measure, judge)
