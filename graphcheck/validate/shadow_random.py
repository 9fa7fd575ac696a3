"""Instructions that draw random numbers, held to what their draw must obey."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from graphcheck.runtime.types import InstructionDump
from graphcheck.validate.measure import measure
from graphcheck.validate.noise import AMPLITUDE, unit

__all__ = ["random_fault"]


def random_fault(
    record: InstructionDump, given: Mapping[str, Any]
) -> tuple[str | None, float, float]:
    """What is wrong with a random instruction: "" if nothing is, None if no rule is known."""
    name = record.op.partition("::")[2].partition(".")[0]
    if name == "native_dropout":
        return _dropout_fault(record, given)
    array = record.outputs[0].array.astype("float64") if record.outputs else None
    if array is None or array.size == 0:
        return None, 0.0, 0.0
    count = array.size
    if name in ("rand", "rand_like"):
        if not (array.min() >= 0 and array.max() <= 1):
            return "draws outside of [0, 1)", math.inf, 0.0
        return _moments_fault(array, (0.5, 1 / 12), (1 / 3, 4 / 45))
    if name in ("randn", "randn_like"):
        return _moments_fault(array, (0.0, 1.0), (1.0, 2.0))
    if name == "bernoulli" and isinstance(given.get("p"), float):
        p = given["p"]
        if not ((array == 0) | (array == 1)).all():
            return "draws other numbers than 0 and 1", math.inf, 0.0
        return _mean_fault(array, p, math.sqrt(p * (1 - p) / count))
    return None, 0.0, 0.0


def _moments_fault(
    array: Any, first: tuple[float, float], second: tuple[float, float]
) -> tuple[str, float, float]:
    """Mean and mean square of many draws; each is given with the variance of one draw of it."""
    found = _mean_fault(array, first[0], math.sqrt(first[1] / array.size))
    if found[0]:
        return found
    told, off, limit = _mean_fault(array**2, second[0], math.sqrt(second[1] / array.size))
    return told.replace("the mean of its draws", "the mean square of its draws"), off, limit


def _mean_fault(array: Any, mean: float, deviation: float) -> tuple[str, float, float]:
    """The mean of many draws, within six standard deviations of it."""
    off, limit = abs(float(array.mean()) - mean), 6 * deviation
    if not (off <= limit):
        return f"the mean of its draws is {float(array.mean()):.4g}, not {mean:g}", off, limit
    return "", off, limit


def _dropout_fault(record: InstructionDump, given: Mapping[str, Any]) -> tuple[str, float, float]:
    import numpy

    p = float(given["p"])
    source = given["input"].double().numpy()
    made, mask = (output.array.astype("float64") for output in record.outputs[:2])
    train = given.get("train")
    if p >= 1 or (train is not None and not train):
        return "", 0.0, 0.0
    wanted = source * mask / (1 - p)
    found = measure(made, wanted)
    dtype = given["input"].dtype
    tolerance = 2 * AMPLITUDE * unit(dtype) * found.scale
    if not (found.absolute <= tolerance):
        kept = (mask != 0) & (source != 0)
        ratio = float(numpy.median(made[kept] / source[kept])) if kept.any() else math.nan
        detail = (
            f"survivors are multiplied by {ratio:.4g}, not by 1/(1-p) = {1 / (1 - p):.4g}"
            if numpy.allclose(made, source * mask * ratio, rtol=1e-3)
            else "the output is not input * mask / (1-p)"
        )
        scale = found.scale or 1.0
        return detail, found.absolute / scale, tolerance / scale
    return _mean_fault(mask, 1 - p, math.sqrt(p * (1 - p) / max(1, mask.size)))
