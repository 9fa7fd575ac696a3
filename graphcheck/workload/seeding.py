"""Random numbers that come out the same at every load of a model and every pass over a step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["seed_generators", "seeded"]


def seed_generators(seed: int) -> None:
    """Set the CPU generators of torch, NumPy and Python."""
    import numpy
    import torch

    torch.manual_seed(seed)
    numpy.random.seed(seed % 2**32)
    random.seed(seed)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The CPU generators of torch, NumPy and Python set to `seed`, and put back after."""
    import numpy
    import torch

    kept, kept_numpy = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[]):
        seed_generators(seed)
        try:
            yield
        finally:
            random.setstate(kept)
            numpy.random.set_state(kept_numpy)
