"""What `validate --ties` measures."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PoolTies", "RuleEffect", "TiesReport"]


@dataclass(frozen=True)
class PoolTies:
    """The windows of one max pool in one dtype, as shares of all `windows`.

    Tied windows have their largest value more than once. `inert`: no gradient flows through them
    (none comes in, or the value is the zero of a relu). `same`: the tied entries were made from
    equal patches, so that the choice among them changes no gradient of what made them.
    `different`: from other patches, or patches that are not known; here the choice matters.
    `near`: not tied, but another entry is so close that rounding decides. `bound` is how far any
    admissible choice can move an entry of the gradient of `bounded` (the weight of the convolution
    before the pool), relative to its largest entry; None where the pool is fed by something else.
    """

    pool: str
    dtype: str
    windows: int
    inert: float = 0.0
    same: float = 0.0
    different: float = 0.0
    near: float = 0.0
    bound: float | None = None
    bounded: str = ""


@dataclass(frozen=True)
class RuleEffect:
    """How far the gradients of a step move when ties are split equally instead of going to the
    first index.

    `variation` is the Euclidean norm of the change of all gradients, relative to theirs; `worst`
    the same for the `parameter` whose gradient varies most. `why_not` says why a dtype was not
    measured.
    """

    dtype: str
    variation: float = 0.0
    worst: float = 0.0
    parameter: str = ""
    why_not: str = ""


@dataclass(frozen=True)
class TiesReport:
    """All max pools of a model in all dtypes."""

    pools: tuple[PoolTies, ...] = ()
    effects: tuple[RuleEffect, ...] = ()
