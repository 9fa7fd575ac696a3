"""Random numbers of Python's or NumPy's generators, which become constants of the joint graph.

`torch.export` records draws of torch's own generator alone. A layer that is left out when
`random.random() < p` is left out for ever, or never. Measured here, in eager mode: gradients of
passes that differ in the state of those generators (the global ones, those that the model keeps and
those of the user's files) and in nothing else.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphcheck.graph.first_draw import DRAWS, first_draw
from graphcheck.graph.generators import HIGH, LOW, kept_by_files, kept_by_model
from graphcheck.graph.own_sources import own_modules, own_sources
from graphcheck.graph.random_pass import RandomPass
from graphcheck.graph.surroundings import Surroundings
from graphcheck.graph.wrong_gradients import WrongGradients, wrong_loss_or_gradients
from graphcheck.workload.types import Workload

__all__ = ["FrozenDraws", "frozen_draws"]

_SEEDS = 6
_MOST_SEEDS = 24
_SECONDS = 3.0
"""Until when more than six seeds are tried."""


@dataclass(frozen=True)
class FrozenDraws:
    """How far loss and gradients move with those generators, and the first draw's place."""

    wrong: WrongGradients
    file: str = ""
    line: int = 0


def frozen_draws(workload: Workload) -> FrozenDraws | None:
    """What moves with those generators; None when nothing does.

    Costs nothing unless a source file of the model speaks of them or one is kept; then passes on
    copies: six seeds and, if forward was seen to draw, numbers close to 0 and to 1 (which find what
    happens with a small probability) and up to 18 seeds more in three seconds. None, too, when the
    model does not run, which other checks report.
    """
    try:
        module = workload.module
        spoken_of = any(map(DRAWS.search, own_sources(module)))
        if not spoken_of and not kept_by_model(module) and not kept_by_files(own_modules(module)):
            return None
        around = Surroundings(module)
        passes = _passes(workload, around, spoken_of)
        first = next(passes)
        for found in passes:
            wrong = wrong_loss_or_gradients(found, first, workload.prefix)
            if wrong is not None:
                return FrozenDraws(wrong, *first_draw(workload, around))
    except Exception:
        return None
    return None


def _passes(
    workload: Workload, around: Surroundings, spoken_of: bool
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Loss and gradients of one pass after the other."""
    began = time.monotonic()
    first = RandomPass(workload, around, 0)
    yield first.found
    if not first.advanced and not spoken_of:
        return
    # What forward makes itself, as `random.Random()`, is not seen to advance.
    for seed in range(1, _SEEDS):
        yield RandomPass(workload, around, seed).found
    if not first.advanced:
        return
    for word in (LOW, HIGH):
        # A number may be one that the model cannot work with.
        with contextlib.suppress(Exception):
            yield RandomPass(workload, around, 0, pushed=word).found
    for seed in range(_SEEDS, _MOST_SEEDS):
        if time.monotonic() - began > _SECONDS:
            return
        yield RandomPass(workload, around, seed).found
