"""Does a negative pad cut, or at least refuse to run?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import relative_error

__all__ = ["PROBE", "measure_pad"]


def measure_pad(load: Load, operation: Any) -> Figures:
    """Error of cutting one column at each side of a 3x4 matrix; `refused` is 1 where it stops."""
    import torch

    x = torch.arange(1.0, 13.0).reshape(3, 4)
    run = load(operation, (x,))
    try:
        found = run(x)[0]
    except RuntimeError:
        return {"refused": 1.0, "error": 0.0}
    return {"refused": 0.0, "error": relative_error(found, x[:, 1:-1])}


def measure(load: Load) -> Figures:
    import torch

    return measure_pad(load, lambda x: torch.ops.aten.constant_pad_nd(x, [-1, -1], 0.0))


def judge(figures: Figures) -> Judgement:
    if figures["refused"]:
        return Judgement(False, "a pad of -1 is refused with an error, which is not silent")
    error = figures["error"]
    return Judgement(
        not (error <= 1e-6), f"a pad of -1 on both sides: off by {error:.2g} of the largest entry"
    )


PROBE = Probe("cut columns of a matrix by a negative pad", measure, judge)
