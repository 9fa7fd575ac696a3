"""Numbers with their noun."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, noun: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
