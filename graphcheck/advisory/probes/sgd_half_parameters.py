"""Does the SGD of the Python bindings stay inside half-precision parameters?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe

__all__ = ["PROBE", "measure_step"]

_SIZE = 64


def measure_step(sgd: Callable[..., Any], dtype: str) -> Figures:
    """One step on parameters of 3, gradients of 1, lr 0.5; the parameters lie between guards."""
    import torch

    # The guards take what is written past the end, so the heap stays whole.
    memory = torch.full((_SIZE * 4,), 3.0, dtype=getattr(torch, dtype))
    parameters = memory[_SIZE : 2 * _SIZE]
    optimizer = sgd({"weight": parameters}, 0.5)
    optimizer.step({"weight": torch.ones(_SIZE * 2, dtype=memory.dtype)[:_SIZE]})
    outside = torch.cat([memory[:_SIZE], memory[2 * _SIZE :]])
    return {
        "wrong": float((parameters != 2.5).sum()),
        "outside": float((outside != 3.0).sum()),
    }


def measure(load: Load) -> Figures:
    import torch  # noqa: F401  (before any binding of the runtime)
    from executorch.extension.training import get_sgd_optimizer

    found = [measure_step(get_sgd_optimizer, dtype) for dtype in ("bfloat16", "float16")]
    return {key: max(figures[key] for figures in found) for key in found[0]}


def judge(figures: Figures) -> Judgement:
    wrong, outside = figures["wrong"], figures["outside"]
    return Judgement(
        not (wrong == 0 and outside == 0),
        f"one step of SGD on {_SIZE} half-precision parameters: {wrong:.0f} of them wrong, "
        f"{outside:.0f} numbers beside them overwritten",
    )


PROBE = Probe("one step of SGD on guarded half-precision parameters", measure, judge, alone=True)
