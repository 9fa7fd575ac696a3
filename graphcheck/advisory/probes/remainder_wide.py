"""Are fmod and powers of int64 exact where float64 is not?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe

__all__ = ["PROBE", "measure_wide"]

_WIDE = 2**53 + 1
_ROOT = 2**20 + 1


def measure_wide(load: Load, fmod: Any, power: Any) -> Figures:
    """2^53 + 1 modulo 3, which is 0; how far (2^20 + 1)^3 is off; 7 modulo 3 and 7^3 by control."""
    import torch

    x, divisor = torch.tensor([_WIDE, 7]), torch.tensor([3, 3])
    rest = load(fmod, (x, divisor))(x, divisor)[0]
    root = torch.tensor([_ROOT, 7])
    cube = load(lambda root: power(root, 3), (root,))(root)[0]
    return {
        "fmod": float(rest[0]),
        "pow": float(cube[0] - _ROOT**3),
        "control": float(abs(rest[1] - 1) + abs(cube[1] - 343)),
    }


def measure(load: Load) -> Figures:
    import torch

    return measure_wide(load, torch.ops.aten.fmod.Tensor, torch.ops.aten.pow.Tensor_Scalar)


def judge(figures: Figures) -> Judgement:
    fmod, power, control = figures["fmod"], figures["pow"], figures["control"]
    return Judgement(
        not (fmod == 0 and power == 0 and control == 0),
        f"int64: 2^53 + 1 modulo 3 is {fmod:g} (right: 0), (2^20 + 1)^3 is off by {power:g}",
    )


PROBE = Probe("take fmod and a power of an int64 that float64 cannot hold", measure, judge)
