"""What `graphcheck fix` prints."""

from __future__ import annotations

from graphcheck.cli.verbs.fix import told
from graphcheck.fixing.types import FixResult

__all__ = ["words"]


def words(result: FixResult, *, diff: bool = False) -> str:
    """What the command prints."""
    return "".join(line + "\n" for line in told(result, diff=diff))
