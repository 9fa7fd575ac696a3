"""The states a patch can be in, in one source tree."""

from __future__ import annotations

import enum

__all__ = ["State"]


class State(enum.StrEnum):
    """What a tree says about one patch."""

    APPLIED = "applied"
    """Edited by graphcheck."""
    FIXED = "fixed upstream"
    """Right as it is, recognised by its structure."""
    NEEDED = "needed"
    """The known fault is there, and the edit fits."""
    NOT_APPLICABLE = "not applicable"
    """The tree does not have the function, or has it in a form without the fault."""
    CONFLICT = "conflict"
    """Neither the known fault nor a known repair, or an edit by hand on top of ours."""
