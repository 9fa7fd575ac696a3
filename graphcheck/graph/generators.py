"""Python's and NumPy's generators of random numbers: where they are, and how they are set.

Their own global ones, those that a model keeps (in attributes, lists, dicts, plain objects and
closures), and those that the user's files keep (in globals and in attributes of classes).
"""

from __future__ import annotations

import functools
import random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

from graphcheck.graph.own_sources import LIBRARIES, is_filled

__all__ = ["HIGH", "LOW", "Place", "global_ones", "kept_by_files", "kept_by_model", "push", "seed"]

LOW, HIGH = 0x00001000, 0xFFFFEFFF
"""32 random bits; as a number between 0 and 1 they are 1e-6, and 1 less 1e-6."""

_WORDS = 624
"""How many of such the Mersenne Twister holds."""
_PUSHED = 256
"""Draws that are made low or high; later ones are as usual, for methods that draw until one fits
would not end."""
_DEPTH = 4
_MOST = 1000
"""Entries of a container, and values in all below one root, that are looked at."""


@dataclass(frozen=True)
class Place:
    """A generator; `owner[key]` (an attribute, where `owner` is a class) is it, if it can be set.

    `owner` is None in a tuple and for the generator of a bound method or a closure.
    """

    generator: Any
    owner: Any = None
    key: Any = None

    def put(self, generator: Any) -> None:
        if isinstance(self.owner, type):
            type.__setattr__(self.owner, self.key, generator)
        elif self.owner is not None:
            self.owner[self.key] = generator


def global_ones() -> list[Place]:
    """Those behind `random.random()` and `numpy.random.rand()`."""
    import numpy

    return [Place(random.random.__self__), Place(numpy.random.mtrand._rand)]  # type: ignore[attr-defined]


def kept_by_model(module: Any) -> list[Place]:
    """The generators that the modules of a model keep, once for every place."""
    import torch

    own = vars(torch.nn.Module()).keys()
    found: list[Place] = []
    for inner in module.modules():
        for name, value in list(vars(inner).items()):
            if name not in own:
                found += _Search().places(value, vars(inner), name, _DEPTH)
    return found


def kept_by_files(homes: Iterable[ModuleType]) -> list[Place]:
    """The generators in globals of these modules, and in attributes of their classes."""
    found: list[Place] = []
    for home in homes:
        for name, value in list(vars(home).items()):
            if isinstance(value, type) and value.__module__ == home.__name__:
                for key, item in list(vars(value).items()):
                    found += _Search().places(item, value, key, _DEPTH - 1)
            elif not name.startswith("__"):
                found += _Search().places(value, vars(home), name, _DEPTH - 1)
    ours = {id(place.generator) for place in global_ones()}
    return [place for place in found if id(place.generator) not in ours]


class _Search:
    """One walk; what it has seen it does not enter again."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def places(self, value: Any, owner: Any, key: Any, depth: int) -> Iterator[Place]:
        import numpy

        if isinstance(value, (random.Random, numpy.random.RandomState, numpy.random.Generator)):
            yield Place(value, owner, key)
            return
        if depth == 0 or id(value) in self.seen or len(self.seen) > _MOST:
            return
        self.seen.add(id(value))
        if isinstance(value, dict):
            for name, item in list(value.items())[:_MOST]:
                yield from self.places(item, value, name, depth - 1)
        elif isinstance(value, (list, deque)):
            for index, item in enumerate(list(value)[:_MOST]):
                yield from self.places(item, value, index, depth - 1)
        elif isinstance(value, (tuple, set, frozenset)):
            for item in list(value)[:_MOST]:
                yield from self.places(item, None, None, depth - 1)
        elif not isinstance(value, (type, ModuleType)):
            yield from self._in_object(value, depth)

    def _in_object(self, value: Any, depth: int) -> Iterator[Place]:
        if isinstance(value, (MethodType, BuiltinMethodType)):
            yield from self.places(value.__self__, None, None, depth - 1)
        elif isinstance(value, FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or () if is_filled(cell)]
            for item in (*cells, *(value.__defaults__ or ())):
                yield from self.places(item, None, None, depth - 1)
        elif isinstance(value, functools.partial):
            for item in (value.func, *value.args, *value.keywords.values()):
                yield from self.places(item, None, None, depth - 1)
        elif hasattr(value, "__dict__") and not _of_a_library(type(value)):
            for name, item in list(vars(value).items()):
                yield from self.places(item, vars(value), name, depth - 1)


def _of_a_library(kind: type) -> bool:
    import torch

    home = f"{kind.__module__}."
    return issubclass(kind, torch.nn.Module) or home.startswith((*LIBRARIES, "builtins.", "numpy."))


def seed(generator: Any, number: int) -> None:
    """Start it from `number`; what has no state (`random.SystemRandom`) stays."""
    import numpy

    if isinstance(generator, numpy.random.Generator):
        bits = generator.bit_generator
        bits.state = type(bits)(number).state
    elif isinstance(generator, numpy.random.RandomState):
        # Not `seed`, which knows the Mersenne Twister alone.
        kind = type(generator._bit_generator)
        legacy = numpy.random.RandomState(
            kind(number) if kind is not numpy.random.MT19937 else number
        )
        generator.set_state(legacy.get_state(legacy=False))
    elif not isinstance(generator, random.SystemRandom):
        generator.seed(number)


def push(place: Place, word: int, number: int) -> None:
    """Make its next draws LOW or HIGH, and those after them as from `number`.

    A NumPy generator with other bits than the Mersenne Twister's is replaced in its place.
    """
    import numpy

    generator = place.generator
    usual = numpy.random.MT19937(number).state["state"]["key"].tolist()
    words = [_untempered(word)] * _PUSHED + usual[_PUSHED:_WORDS]
    if isinstance(generator, random.SystemRandom):
        return
    if isinstance(generator, random.Random):
        generator.setstate((3, (*words, 0), None))
        return
    bits = numpy.random.MT19937(number)
    key = numpy.array(words, dtype=numpy.uint32)
    bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 0}}
    if isinstance(generator, numpy.random.RandomState):
        generator.set_state(("MT19937", key, 0, 0, 0.0))
    elif type(generator) is numpy.random.Generator:
        if generator.bit_generator.state["bit_generator"] == "MT19937":
            generator.bit_generator.state = bits.state
        else:
            place.put(numpy.random.Generator(bits))


def _untempered(word: int) -> int:
    """The state of the Mersenne Twister that gives these 32 bits."""
    word ^= word >> 18
    word ^= (word << 15) & 0xEFC60000
    taken = word
    for _ in range(5):
        taken = word ^ ((taken << 7) & 0x9D2C5680)
    word = taken
    for _ in range(3):
        taken = word ^ (taken >> 11)
    return taken & 0xFFFFFFFF
