"""Errors of one step: the largest difference of each quantity, judged against its tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphcheck.validate.types import Divergence

if TYPE_CHECKING:
    from graphcheck.validate.oracle import Tolerances

__all__ = [
    "LOSS",
    "Error",
    "judge_step",
    "largest",
    "measure",
    "relative",
    "scale_of",
    "scales_of",
    "tolerance_of",
]

LOSS = "loss"


@dataclass(frozen=True)
class Error:
    """The largest difference of a quantity: absolute, and the two values where it is.

    `scale` is the largest entry of the eager quantity.
    """

    absolute: float
    runtime: float
    eager: float
    scale: float


def largest(array: Any) -> float:
    """Largest absolute entry, non-finite ones left out; 0 without any."""
    import numpy

    size = numpy.abs(array)
    found = float(size.max()) if size.size else 0.0
    if found < math.inf:
        return found
    finite = size[numpy.isfinite(size)]
    return float(finite.max()) if finite.size else 0.0


def measure(runtime: Any, eager: Any) -> Error:
    """Largest absolute difference of two arrays; entries that are equal or both NaN differ by 0.

    An array of another shape, or none at all (None), differs by infinity.
    """
    import numpy

    wanted = numpy.asarray(eager, dtype=numpy.float64)
    scale = largest(wanted)
    if runtime is None or numpy.shape(runtime) != wanted.shape:
        return Error(math.inf, math.nan, scale, scale)
    got = numpy.asarray(runtime, dtype=numpy.float64)
    if got.size == 0:
        return Error(0.0, 0.0, 0.0, 0.0)
    with numpy.errstate(invalid="ignore", over="ignore"):
        difference = numpy.abs(got - wanted)
    # Infinite or NaN: there are such entries, and those that are the same in both differ by 0.
    if not difference.max() < math.inf:
        same = (got == wanted) | (numpy.isnan(got) & numpy.isnan(wanted))
        difference = numpy.where(same, 0.0, difference)
    # argmax returns the first NaN, if there is one.
    worst = numpy.unravel_index(numpy.argmax(difference), difference.shape)
    return Error(float(difference[worst]), float(got[worst]), float(wanted[worst]), scale)


def judge_step(
    index: int,
    errors: Mapping[str, Error],
    tolerances: Tolerances,
    told: Callable[[str], str],
) -> tuple[Divergence | None, dict[str, float]]:
    """The first error above its tolerance, and all errors relative to the largest entries."""
    scales = scales_of(errors, tolerances)
    first: Divergence | None = None
    shares: dict[str, float] = {}
    for name, error in errors.items():
        absolute = tolerance_of(tolerances, name)
        scale = scales[name]
        shares[told(name)] = relative(error.absolute, scale)
        if first is None and not (error.absolute <= absolute):
            first = Divergence(
                step=index,
                quantity=told(name),
                runtime=error.runtime,
                eager=error.eager,
                error=shares[told(name)],
                tolerance=relative(absolute, scale),
            )
    return first, shares


def scales_of(errors: Mapping[str, Error], tolerances: Tolerances | None) -> dict[str, float]:
    """What each error of a step is relative to, by name."""
    largest = max((error.scale for name, error in errors.items() if name != LOSS), default=0.0)
    return {
        name: scale_of(error, tolerance_of(tolerances, name), 0.0 if name == LOSS else largest)
        for name, error in errors.items()
    }


def tolerance_of(tolerances: Tolerances | None, name: str) -> float:
    if tolerances is None:
        return 0.0
    return tolerances.loss if name == LOSS else tolerances.gradients.get(name, 0.0)


def scale_of(error: Error, tolerance: float, largest: float) -> float:
    """What an error is relative to: the largest entry, or that of all gradients of the step for a
    gradient that is zero but for rounding."""
    return error.scale if error.scale > tolerance or not largest else largest


def relative(error: float, scale: float) -> float:
    if scale:
        return error / scale
    return 0.0 if error == 0 else math.inf
