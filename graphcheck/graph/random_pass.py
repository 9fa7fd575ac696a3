"""A pass over a step with Python's and NumPy's generators in a state of our choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphcheck.graph.generators import Place, global_ones, kept_by_model, push, seed
from graphcheck.graph.gradient_hooks import copied_with_hooks
from graphcheck.graph.surroundings import Surroundings
from graphcheck.graph.wrong_gradients import gradients_of
from graphcheck.workload.types import Workload

__all__ = ["RandomPass", "state_of"]

_APART = 1009
"""Between the seeds of two generators, which else might draw the same."""


class RandomPass:
    """A pass on a copy of the model.

    The generators start from `number`, or, with `pushed` (LOW or HIGH), draw such numbers first.
    `found` is what `gradients_of` gives; `advanced` whether forward has drawn from a generator that
    can be seen. `watching` is called before forward with the generators.
    """

    def __init__(
        self,
        workload: Workload,
        around: Surroundings,
        number: int,
        *,
        pushed: int | None = None,
        watching: Callable[[list[Any]], None] | None = None,
    ) -> None:
        self.advanced = False
        module = copied_with_hooks(workload.module)
        places: list[Place] = []
        before: list[Any] = []

        def start(*_: Any) -> None:
            places.extend(_all(module, around))
            for index, place in enumerate(places):
                if pushed is not None:
                    push(place, pushed, number + index)
                else:
                    # The global ones as `gradients_of` starts them.
                    seed(place.generator, number + _APART * max(index - 1, 0))
            before.extend(state_of(place.generator) for place in places)
            if watching:
                watching([place.generator for place in places])

        def end(*_: Any) -> None:
            self.advanced = before != [state_of(place.generator) for place in places]

        # Hooks, because `gradients_of` sets the global generators before forward.
        module.register_forward_pre_hook(start, prepend=True)
        module.register_forward_hook(end)
        with around.kept():
            self.found = gradients_of(workload, module, draws=number)


def _all(module: Any, around: Surroundings) -> list[Place]:
    return [*global_ones(), *kept_by_model(module), *around.generators]


def state_of(generator: Any) -> Any:
    """Its state as something that can be compared; a new object for one that has none."""
    import random

    import numpy

    if isinstance(generator, random.SystemRandom):
        return object()
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, numpy.random.Generator):
        return _frozen(generator.bit_generator.state)
    return _frozen(generator.get_state(legacy=False))


def _frozen(state: Any) -> Any:
    import numpy

    if isinstance(state, dict):
        return tuple((key, _frozen(value)) for key, value in state.items())
    return state.tobytes() if isinstance(state, numpy.ndarray) else state
