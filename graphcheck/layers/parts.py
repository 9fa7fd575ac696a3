"""What several layers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["sizes"]


def sizes(value: Any, rank: int) -> tuple[int, ...]:
    """`value` once for each spatial dim."""
    return tuple(value) if isinstance(value, Sequence) else (value,) * rank
