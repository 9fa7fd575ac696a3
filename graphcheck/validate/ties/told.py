"""The sentences on ties that the runtime decided otherwise than eager, with no error in it."""

from __future__ import annotations

from collections.abc import Sequence

from graphcheck.validate.ties.chosen import Decided
from graphcheck.validate.ties.picks import POOLS

__all__ = ["RULE_CHANGE", "told_decisions"]

RULE_CHANGE = "RULE CHANGE"
_KINKED = ("relu", "abs", "hardtanh", "leaky_relu")
_MOST = 3


def told_decisions(decided: Sequence[Decided]) -> list[str]:
    """A note on the exact ties, and one on the near ones, of each kind of op."""
    notes = []
    for name in dict.fromkeys(_kind(entry) for entry in decided):
        own = [entry for entry in decided if _kind(entry) == name]
        equal, near = sum(e.equal for e in own), sum(e.near for e in own)
        modules = list(dict.fromkeys(e.choice.module for e in own if e.choice.module))
        more = f" and {len(modules) - _MOST} more" if len(modules) > _MOST else ""
        where = f" ({', '.join(modules[:_MOST])}{more})" if modules else ""
        agrees = "with the runtime's choices eager agrees"
        many = "windows" if name == "max pools" else "places"
        if equal:
            notes.append(
                f"{RULE_CHANGE}: {name} of the runtime{where} take another of equal values in "
                f"{equal} {many}; {agrees}, so this is no error"
            )
        if near and name in _KINKED:
            notes.append(
                f"a tie, no error: of {near} entries of {name}{where} rounding decides on which "
                f"side of the kink they are; {agrees}"
            )
        elif near:
            notes.append(
                f"a tie, no error: in {near} {many} of {name}{where} rounding decides between "
                f"values that are nearly equal; {agrees}"
            )
    return notes


def _kind(entry: Decided) -> str:
    return "max pools" if entry.choice.name in POOLS else entry.choice.name
