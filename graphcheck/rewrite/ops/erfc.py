"""Complementary error function, accurate also where it is small."""

from __future__ import annotations

import math
from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.parts import chebyshev_series

__all__ = ["REWRITES"]

# Chebyshev coefficients of exp(x^2) erfc(x) / t over t = 2 / (2 + x) in (0, 1], the first one
# doubled as usual; computed with 40 digits at 64 nodes, cut where they fall below 1e-16.
_COEFFICIENTS = (
    1.1540674772329393,
    0.3554369212704985,
    0.06509515882878653,
    0.003671142395836639,
    -0.0011128447433526325,
    -0.0001607582991537808,
    3.278031574173137e-05,
    5.442441645505016e-06,
    -1.5154665553171482e-06,
    -1.4297608181169865e-07,
    8.234608827419493e-08,
    -1.2962846852306563e-09,
    -4.154721631015199e-09,
    6.347058278362811e-10,
    1.4320822712256225e-10,
    -6.160390105204585e-11,
    2.0612138554721698e-12,
    3.5714931488477042e-12,
    -8.586422843251796e-13,
    -6.14560021379063e-14,
    7.418725748596617e-14,
    -1.2895042755032325e-14,
    -2.358726385710632e-15,
    1.5729349381685912e-15,
    -2.2782966239546465e-16,
    -6.31233045075643e-17,
    3.5916763531814925e-17,
)


def chebyshev(x: Any) -> Any:
    """erfc(x) for every finite x; computed in float64."""
    import torch

    wide = x.to(torch.float64)
    size = torch.abs(wide)
    t = 2.0 / (size + 2.0)
    twice = t * 4.0 - 2.0
    # `twice` is 2 (2 t - 1).
    series = chebyshev_series(twice, _COEFFICIENTS)
    # exp(-x^2) in two parts, so that rounding x^2 does not count: `coarse` squares exactly.
    coarse = torch.trunc(size * 16.0) / 16.0
    bell = torch.exp(-coarse * coarse) * torch.exp(-(size - coarse) * (size + coarse))
    tail = bell * series * t
    tail = torch.where(size > _LARGEST, torch.zeros_like(tail), tail)
    result = torch.where(wide < 0, 2.0 - tail, tail)
    return result.to(x.dtype if x.dtype.is_floating_point else torch.get_default_dtype())


# erfc is zero in float64 beyond.
_LARGEST = math.sqrt(745.2)

REWRITES = (
    Rewrite(
        name="erfc_chebyshev",
        op="aten.erfc.default",
        formula="erfc(x) = t exp(-x^2) sum of c_k T_k(2 t - 1), t = 2 / (2 + x), for x >= 0; "
        "2 - erfc(-x) for x < 0",
        source="Chebyshev series of exp(x^2) erfc(x) / t, computed for this file; Clenshaw, A note "
        "on the summation of Chebyshev series (1955)",
        decompose=chebyshev,
        exact=False,
        memory="about a hundred short-lived float64 tensors of the size of the input",
        remark="1 - erf(x) would lose all digits from x = 4 on in float32",
    ),
)
