"""Inverse error function, by Halley's iteration."""

from __future__ import annotations

import math
from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.ops.erfc import chebyshev
from graphcheck.rewrite.parts import scaled, shifted

__all__ = ["REWRITES"]

# Of Winitzki's closed form, which is within 0.002 of the value everywhere.
_A = 0.147


def halley(x: Any) -> Any:
    """erfinv(x), computed in float64: infinite at -1 and 1, NaN outside."""
    import torch

    wide = x.to(torch.float64)
    size = torch.abs(wide)
    # 1 - |x| is exact from 1/2 on, where it is what counts.
    rest = shifted(-size, 1.0)
    log = torch.log(rest * shifted(size, 1.0))
    half = shifted(scaled(log, 0.5), 2 / (math.pi * _A))
    start = torch.sqrt(torch.sqrt(half * half - scaled(log, 1 / _A)) - half)
    inside = (rest > 0) & (size > 0)
    y = torch.where(inside, start, torch.zeros_like(start))
    for _ in range(3):
        # erf(y) - |x|, near 1 as (1 - |x|) - erfc(y).
        off = torch.where(size < 0.5, torch.erf(y) - size, rest - chebyshev(y))
        ratio = scaled(off * torch.exp(y * y), math.sqrt(math.pi) / 2)
        y = y - ratio / shifted(y * ratio, 1.0)
    y = torch.where(inside, y, torch.zeros_like(y))
    y = torch.where(rest == 0, torch.full_like(y, float("inf")), y)
    # NaN stays NaN in the comparison that is false for it.
    y = torch.where(rest >= 0, y, torch.full_like(y, float("nan")))
    result = torch.where(wide < 0, -y, y)
    return result.to(x.dtype if x.dtype.is_floating_point else torch.get_default_dtype())


def ndtri(p: Any) -> Any:
    """The quantile function of the standard normal distribution."""
    import torch

    dtype = p.dtype if p.dtype.is_floating_point else torch.get_default_dtype()
    doubled = shifted(scaled(p.to(torch.float64), 2.0), -1.0)
    return scaled(halley(doubled), math.sqrt(2.0)).to(dtype)


REWRITES = (
    Rewrite(
        name="erfinv_halley",
        op="aten.erfinv.default",
        formula="y from Winitzki's closed form, then three times y - u / (1 + y u) with "
        "u = (erf(y) - x) exp(y^2) sqrt(pi) / 2",
        source="Winitzki, A handy approximation for the error function and its inverse (2008); "
        "Halley's iteration",
        decompose=halley,
        exact=False,
        memory="about three hundred short-lived float64 tensors of the size of the input",
    ),
    Rewrite(
        name="ndtri_halley",
        op="aten.special_ndtri.default",
        formula="sqrt(2) erfinv(2 p - 1)",
        source="documentation of torch.special.ndtri",
        decompose=ndtri,
        exact=False,
        memory="about three hundred short-lived float64 tensors of the size of the input",
        remark="float32 in float64 arithmetic; a float64 p below 1e-17 is taken as 0",
    ),
)
