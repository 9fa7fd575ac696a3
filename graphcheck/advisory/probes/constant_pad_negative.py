"""Does a negative pad cut, or at least refuse to run?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import generator, relative_error

__all__ = ["PROBE", "measure_pad"]


_PAD = (1, -1)


def measure_pad(load: Load, operation: Any) -> Figures:
    """Error of a pad by 1 on the left and -1 on the right; `refused` is 1 where it stops.

    `operation(x)` pads the last dim of a tensor of four.
    """
    import torch

    x = torch.randn((2, 3, 4, 5), generator=generator())
    run = load(operation, (x,))
    truth = torch.nn.functional.pad(x, _PAD)
    try:
        return {"refused": 0.0, "error": relative_error(run(x)[0], truth)}
    except RuntimeError:
        return {"refused": 1.0, "error": 0.0}


def measure(load: Load) -> Figures:
    import torch

    return measure_pad(load, lambda x: torch.ops.aten.constant_pad_nd(x, list(_PAD), 0.0))


def judge(figures: Figures) -> Judgement:
    if figures["refused"]:
        return Judgement(False, "a negative pad is refused with an error, which is not silent")
    error = figures["error"]
    return Judgement(
        not (error <= 1e-6), f"a pad of 1 and -1: off by {error:.2g} of the largest entry"
    )


PROBE = Probe("shift a tensor by a pad of 1 and -1", measure, judge)
