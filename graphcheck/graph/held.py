"""A value as it was at one time, put back into the very same objects.

Numbers, tensors, arrays, lists, tuples, deques, sets and dicts of such, and generators of random
numbers (of torch, NumPy and Python). What other objects hold inside is not seen.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Held", "held", "restored"]


@dataclass(frozen=True)
class Held:
    """An object, and what it held when it was looked at (None for what cannot change)."""

    value: Any
    content: Any = None


def held(value: Any) -> Held:
    """The value with a copy of what it holds."""
    import numpy
    import torch

    if isinstance(value, torch.nn.Parameter):
        return Held(value)  # recurrent layers list their own
    if isinstance(value, torch.Tensor):
        return Held(value, value.detach().clone())
    if type(value) is numpy.ndarray:
        return Held(value, value.copy())
    if type(value) in (list, tuple, deque):
        return Held(value, [held(item) for item in value])
    if type(value) is set:
        return Held(value, set(value))
    if isinstance(value, dict):
        return Held(value, {key: held(item) for key, item in value.items()})
    if isinstance(value, torch.Generator):
        return Held(value, value.get_state())
    if isinstance(value, numpy.random.RandomState):
        return Held(value, value.get_state(legacy=False))
    if isinstance(value, numpy.random.Generator):
        return Held(value, value.bit_generator.state)
    if isinstance(value, numpy.random.BitGenerator):
        return Held(value, value.state)
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return Held(value, value.getstate())
    return Held(value)


def restored(kept: Held) -> Any:
    """The same object with its content as it was."""
    import numpy
    import torch

    value, content = kept.value, kept.content
    if isinstance(value, torch.Tensor):
        if content is not None and not _equal(value, content):
            with torch.no_grad():
                value.copy_(content)
    elif content is None:
        return value
    elif isinstance(value, numpy.ndarray):
        if value.flags.writeable:
            value[...] = content
    elif type(value) is tuple:
        for item in content:
            restored(item)
    elif type(value) in (list, deque):
        items = list(_each(content))
        value.clear()
        value.extend(items)
    elif type(value) is set:
        value.clear()
        value.update(content)
    elif isinstance(value, dict):
        pairs = list(zip(content, _each(content.values()), strict=True))
        value.clear()
        value.update(pairs)
    elif isinstance(value, (torch.Generator, numpy.random.RandomState)):
        value.set_state(content)
    elif isinstance(value, numpy.random.Generator):
        value.bit_generator.state = content
    elif isinstance(value, numpy.random.BitGenerator):
        value.state = content
    elif isinstance(value, random.Random):
        value.setstate(content)
    return value


def _each(contents: Any) -> Iterator[Any]:
    return (restored(item) for item in contents)


def _equal(tensor: Any, content: Any) -> bool:
    """Whether nothing is to be done; autograd counts every write."""
    import torch

    same = tensor.shape == content.shape and tensor.dtype == content.dtype
    return bool(same and torch.equal(tensor.detach(), content))
