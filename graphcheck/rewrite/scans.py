"""Prefix scans by doubling: after step s each element holds the result of its 2^s last ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["scan"]


def scan(
    state: Sequence[Any],
    dim: int,
    neutral: Sequence[Any],
    combine: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
) -> list[Any]:
    """Inclusive scan of a tuple of tensors along `dim`.

    `combine(earlier, later)` is associative; `neutral` are the values that leave `later` alone.
    Takes log2(n) steps of a join and a combination.
    """
    import torch

    aten = torch.ops.aten
    held = list(state)
    count = held[0].shape[dim]
    reach = 1
    while reach < count:
        sizes = list(held[0].shape)
        sizes[dim] = reach
        # Joined, not padded: the gradient of a pad is a negative pad, which the kernel refuses.
        earlier = [
            aten.cat.default(
                [
                    aten.full.default(sizes, value, dtype=one.dtype),
                    aten.slice.Tensor(one, dim, 0, count - reach),
                ],
                dim,
            )
            for one, value in zip(held, neutral, strict=True)
        ]
        held = list(combine(earlier, held))
        reach *= 2
    return held
