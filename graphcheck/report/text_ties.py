"""Ties of max pools as text: how often, where it matters, and what another rule would change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphcheck.report.ansi import wrap
from graphcheck.report.interface import Look
from graphcheck.report.words import counted

if TYPE_CHECKING:
    from graphcheck.validate.ties.types import PoolTies, RuleEffect
    from graphcheck.validate.types import Verdict

__all__ = ["effect_sentence", "pool_sentence", "ties_block"]


def ties_block(verdict: Verdict, look: Look) -> Iterator[str]:
    """The block of a report; nothing where ties were not measured."""
    if verdict.ties is None:
        return
    yield "ties of max pools in eager PyTorch, first step"
    for pool in verdict.ties.pools:
        yield wrap(pool_sentence(pool), look.width, "  ")
    for effect in verdict.ties.effects:
        yield wrap(effect_sentence(effect), look.width, "  ")


def pool_sentence(pool: PoolTies) -> str:
    """`pool1 float16: 4096 windows; tied: 8 % without gradient, ...`"""
    bound = ""
    if pool.bound is not None and pool.different:
        bound = (
            f"; no choice moves the gradient of {pool.bounded} by more than {pool.bound:.1e} of "
            "its largest entry"
        )
    return (
        f"{pool.pool} {pool.dtype}: {counted(pool.windows, 'window')}; tied: "
        f"{_percent(pool.inert)} without gradient, {_percent(pool.same)} from equal patches, "
        f"{_percent(pool.different)} from different ones; nearly tied: {_percent(pool.near)}{bound}"
    )


def effect_sentence(effect: RuleEffect) -> str:
    """`float16: splitting ties equally ... moves the gradients by 2.0e-03 of their norm, ...`"""
    if effect.why_not:
        return f"{effect.dtype}: NOT MEASURED, {effect.why_not}"
    most = f", most that of {effect.parameter} ({effect.worst:.1e})" if effect.parameter else ""
    return (
        f"{effect.dtype}: splitting ties equally, in place of the first index, moves the gradients "
        f"by {effect.variation:.1e} of their norm{most}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
