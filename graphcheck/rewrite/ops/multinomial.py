"""Draws of classes by their weights."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES", "multinomial"]

_STEP = 2.0**-24
"""The distance of neighbouring float32 uniforms."""


def multinomial(
    weights: Any, num_samples: Any, replacement: bool = False, *, generator: Any = None
) -> Any:
    """Indices of the last dim of `weights` [..., n], int64 [..., num_samples].

    Each class waits an exponential time of the rate that is its weight; those that come first are
    drawn. With replacement every sample is a race of its own.
    """
    import torch

    if not isinstance(num_samples, int):
        return NotImplemented
    races = [num_samples] if replacement and num_samples > 1 else []
    shape = [*weights.shape[:-1], *races, weights.shape[-1]]
    draw = torch.ops.aten.rand.default(shape, dtype=torch.float32, device=weights.device)
    # Neither 0 nor infinite: a class of weight 0 is never first.
    times = -torch.log(torch.ops.aten.clamp.default(1 - draw, _STEP, 1 - _STEP))
    speeds = weights.to(torch.float32)
    if races:
        speeds = speeds.unsqueeze(-2)
    first = torch.ops.aten.topk.default(speeds / times, 1 if races else num_samples, -1)[1]
    return first.squeeze(-1) if races else first


REWRITES = (
    Rewrite(
        name="multinomial",
        op="aten.multinomial.default",
        formula="the largest of weight / e, e exponential; with replacement one race per sample",
        source="exponential races: argmin of e_i / w_i is i with probability w_i / sum(w)",
        decompose=multinomial,
        memory="with replacement, a uniform number for every class of every sample",
    ),
)
