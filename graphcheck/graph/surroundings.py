"""What a pass over a step may leave behind outside the copy of a model that it runs on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from graphcheck.graph.generators import Place, kept_by_files, kept_by_model
from graphcheck.graph.held import held, restored
from graphcheck.graph.outside_writes import Variable, outside_writes
from graphcheck.graph.own_sources import own_modules

__all__ = ["Surroundings"]


class Surroundings:
    """The variables that the user's functions change outside the model, and generators of random
    numbers that his files keep.

    `generators` are those of his files alone.
    """

    def __init__(self, module: Any) -> None:
        self.variables: tuple[Variable, ...] = tuple(outside_writes(module))
        self.generators: tuple[Place, ...] = tuple(kept_by_files(own_modules(module)))
        self._of_model = kept_by_model(module)

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Put all of it back after the block, with the generators of the model itself, which a copy
        may share."""
        before = self.now()
        try:
            yield
        finally:
            before()

    def now(self) -> Callable[[], None]:
        """A function that puts all of it back to what it is now. Any number of times."""
        values = [(v, held(v.value())) for v in self.variables]
        states = [held(place.generator) for place in (*self.generators, *self._of_model)]

        def put() -> None:
            for state in states:
                restored(state)
            for place in self.generators:
                place.put(place.generator)
            for variable, value in values:
                variable.set(restored(value))

        return put
