"""Copies of Python values that forward may change, to compare, to extrapolate and to set."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

__all__ = ["FAR", "extrapolated", "merged", "same", "snapshot"]

FAR = 1000
"""Steps after which a number that forward counts is tried, too (a warm-up, a schedule)."""


def snapshot(value: Any) -> Any:
    """A copy that shares nothing that can change; objects of other classes are themselves."""
    import numpy
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) is numpy.ndarray:
        return value.copy()
    if type(value) in (list, tuple, set, deque):
        items = [snapshot(item) for item in value]
        return deque(items, value.maxlen) if isinstance(value, deque) else type(value)(items)
    if isinstance(value, dict):
        taken = copy.copy(value)
        taken.update({key: snapshot(item) for key, item in value.items()})
        return taken
    return value


def same(first: Any, second: Any) -> bool:
    """Whether two snapshots hold the same; objects of other classes always do."""
    import numpy
    import torch

    if type(first) is not type(second):
        return False
    if isinstance(first, torch.Tensor):
        return first.shape == second.shape and bool(torch.equal(first, second))
    if isinstance(first, numpy.ndarray):
        return bool(numpy.array_equal(first, second))
    if isinstance(first, (list, tuple, deque)):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, (int, float, complex, str, bytes, set)):
        return bool(first == second)
    return True


def extrapolated(before: Any, after: Any, steps: int = FAR) -> Any:
    """What a counted number is after so many such steps, also in lists and dicts.

    Others as they are: the later of two snapshots, which it does not change.
    """
    if type(before) is not type(after):
        return after
    if type(after) in (int, float):
        return before + steps * (after - before)
    if isinstance(after, dict):
        taken = copy.copy(after)
        taken.update(
            {k: extrapolated(before[k], v, steps) for k, v in after.items() if k in before}
        )
        return taken
    if type(after) in (list, tuple) and len(before) == len(after):
        return type(after)(extrapolated(b, a, steps) for b, a in zip(before, after, strict=True))
    return after


def merged(current: Any, value: Any) -> Any:
    """What to set where `current` is: itself with the content of the snapshot `value`, if a
    container, for others may hold it; else a copy of `value`."""
    value = snapshot(value)
    if type(current) is not type(value) or current is value:
        return value
    if isinstance(current, (list, deque)):
        current.clear()
        current.extend(value)
    elif isinstance(current, (dict, set)):
        current.clear()
        current.update(value)
    else:
        return value
    return current
