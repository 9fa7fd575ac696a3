"""Random numbers that come out the same at every pass over a step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["seeded"]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The CPU generators of torch, NumPy and Python set to `seed`, and put back after."""
    import numpy
    import torch

    kept, kept_numpy = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        numpy.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(kept)
            numpy.random.set_state(kept_numpy)
