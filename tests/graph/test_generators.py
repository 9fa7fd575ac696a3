"""Generators that are found in a model, started from a number and made to draw low or high."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from torch import nn

from graphcheck.graph.generators import HIGH, LOW, Place, kept_by_model, push, seed


def _draw(generator: Any) -> float:
    return float(generator.random_sample() if hasattr(generator, "rand") else generator.random())


KINDS = [
    lambda: random.Random(1),
    lambda: np.random.RandomState(1),
    lambda: np.random.default_rng(1),
    lambda: np.random.Generator(np.random.MT19937(1)),
    lambda: np.random.Generator(np.random.Philox(1)),
]


@pytest.mark.parametrize("make", KINDS)
def test_a_seed_gives_the_same_again_and_another_not(make: Any) -> None:
    generator = make()
    drawn = []
    for number in (3, 3, 4):
        seed(generator, number)
        drawn.append(_draw(generator))
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("make", KINDS)
def test_low_and_high(make: Any) -> None:
    held = {"rng": make()}
    kind = type(held["rng"])
    push(Place(held["rng"], held, "rng"), LOW, 0)
    assert type(held["rng"]) is kind
    assert all(_draw(held["rng"]) < 1e-5 for _ in range(100))
    push(Place(held["rng"], held, "rng"), HIGH, 0)
    assert all(_draw(held["rng"]) > 1 - 1e-5 for _ in range(100))
    # Later draws are as usual, so that what draws until a number fits comes to an end.
    assert len({_draw(held["rng"]) for _ in range(500)}) > 100
    for word in (LOW, HIGH):
        push(Place(held["rng"], held, "rng"), word, 0)
        rng = held["rng"]
        _ = rng.normalvariate() if isinstance(rng, random.Random) else rng.gamma(0.5, size=9)


def test_the_systems_generator_stays() -> None:
    generator = random.SystemRandom()
    seed(generator, 1)
    push(Place(generator), LOW, 1)


def test_every_place_of_a_model_is_found() -> None:
    class Kept:
        def __init__(self) -> None:
            self.rng = random.Random(0)

    module = nn.Sequential(nn.Linear(1, 1))
    inner: Any = module[0]
    inner.rng = np.random.default_rng(0)
    inner.table = {"a": [np.random.RandomState(0)], "b": (random.Random(0),)}
    inner.kept = Kept()
    inner.draw = inner.rng.uniform
    inner.numbers = [1, 2.0, "x"]
    found = [place.generator for place in kept_by_model(module)]
    wanted = [
        *(inner.rng, inner.table["a"][0], inner.table["b"][0]),
        *(inner.kept.rng, inner.rng),
    ]
    assert [*map(id, found)] == [*map(id, wanted)]
    assert kept_by_model(nn.Sequential(nn.Linear(1, 1), nn.LSTM(1, 1))) == []
