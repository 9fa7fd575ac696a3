"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["LEVELS", "sparkline", "value_range"]

_BLOCKS = "▁▂▃▄▅▆▇█"
LEVELS = len(_BLOCKS)
"""How many values a character can tell apart."""
_ASCII = "_.-=+*%#"
_LOG_RATIO = 100.0


def value_range(*curves: Sequence[float]) -> tuple[float, float] | None:
    """Smallest and largest finite value of all curves, None when there is none."""
    values = [value for curve in curves for value in curve if math.isfinite(value)]
    return (min(values), max(values)) if values else None


def sparkline(
    values: Sequence[float],
    limits: tuple[float, float] | None = None,
    *,
    width: int = 60,
    unicode: bool = True,
) -> str:
    """The curve in at most `width` characters, one per value or per group of values.

    `limits` is the range to scale to, so that two curves can share one scale. A positive range
    of more than two decades is drawn on a log scale. NaN is drawn as `N`, infinity as `^` or `v`;
    a group shows its worst value: NaN before infinity before the last finite one.
    """
    limits = limits or value_range(values)
    return "".join(
        _character(group, limits, _BLOCKS if unicode else _ASCII)
        for group in _groups(values, width)
    )


def _groups(values: Sequence[float], width: int) -> list[Sequence[float]]:
    if len(values) <= width:
        return [values[i : i + 1] for i in range(len(values))]
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    return [values[a:b] for a, b in pairwise(edges)]


def _character(group: Sequence[float], limits: tuple[float, float] | None, levels: str) -> str:
    if any(math.isnan(value) for value in group):
        return "N"
    for value in group:
        if math.isinf(value):
            return "^" if value > 0 else "v"
    assert limits is not None  # a finite value was seen
    low, high = limits
    value = group[-1]
    if low > 0 and high / low > _LOG_RATIO:
        low, high, value = math.log(low), math.log(high), math.log(value)
    if not high > low:
        return levels[0]
    share = (value - low) / (high - low)
    return levels[min(max(round(share * (len(levels) - 1)), 0), len(levels) - 1)]
