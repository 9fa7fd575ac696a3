"""The form every swap has, and the registry that finds them.

A swap is one file of `graphcheck.swap.swaps` that defines `SWAP = Swap(...)`; what it stands for,
whether it is exact and what it mends is in `opsets/swaps.yaml`.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from graphcheck.errors import UsageError
from graphcheck.opset.swaps import SwapEntry, swap_catalogue

if TYPE_CHECKING:
    import libcst as cst

    from graphcheck.swap.source import Editor

__all__ = ["Made", "Pick", "Swap", "Unfit", "all_swaps", "parse_picks", "swap_named"]


class Unfit(Exception):
    """A swap that does not fit a module or a call; the text says why."""


@dataclass(frozen=True)
class Pick:
    """A swap the user picked, with its argument: `batch-norm-as-group-norm=8`."""

    name: str
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.name}={self.argument}" if self.argument else self.name


@dataclass(frozen=True)
class Made:
    """A module made in place of another, and what was done in a few words."""

    module: Any
    what: str


ModuleForm = Callable[[Any, str], Made]
"""From a module and the swap's argument to its replacement. Raises Unfit."""
WholeForm = Callable[[Any, str, Callable[[str], bool]], Iterable[tuple[str, str, str]]]
"""Changes a whole model in place; gives path, what was done and why not ("" when done)."""
SourceForm = Callable[["cst.Call", str, "Editor", str], "cst.BaseExpression"]
"""From a call, the short name of what it calls and the argument to a new call. Raises Unfit."""
StatementForm = Callable[["cst.Assign", "Editor"], "cst.Assign | None"]
"""From an assignment to another, or None for one that is not meant."""


@dataclass(frozen=True)
class Swap:
    """One swap. `module` or `whole` is its module form; `source` or `statement` its source form.

    A swap without source form is written as a call of `make_trainable`. `takes` says what its
    argument is, "" for none; `check_argument` raises Unfit for one that cannot be used.
    """

    name: str
    module: ModuleForm | None = None
    whole: WholeForm | None = None
    source: SourceForm | None = None
    statement: StatementForm | None = None
    takes: str = ""
    check_argument: Callable[[str], object] | None = None

    @property
    def entry(self) -> SwapEntry:
        """Its entry in the catalogue."""
        return swap_catalogue()[self.name]


@lru_cache(maxsize=1)
def all_swaps() -> dict[str, Swap]:
    """Every swap by name, in the order of the catalogue.

    Raises ValueError when code and catalogue do not have the same names.
    """
    from graphcheck.swap import swaps as package

    found: dict[str, Swap] = {}
    for module in pkgutil.iter_modules(package.__path__):
        swap = importlib.import_module(f"{package.__name__}.{module.name}").SWAP
        if swap.name in found:
            raise ValueError(f"two swaps have the name {swap.name}")
        found[swap.name] = swap
    names = swap_catalogue()
    if set(names) != set(found):
        odd = ", ".join(sorted(set(names) ^ set(found)))
        raise ValueError(f"swaps and opsets/swaps.yaml do not agree on {odd}")
    return {name: found[name] for name in names}


def swap_named(name: str) -> Swap:
    """The swap of this name. Raises UsageError that names a near one."""
    swaps = all_swaps()
    if name not in swaps:
        near = difflib.get_close_matches(name, swaps, n=1, cutoff=0.5)
        guess = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(f"There is no swap {name!r}.", f"{guess}Swaps are {', '.join(swaps)}.")
    return swaps[name]


def parse_picks(texts: Iterable[str]) -> tuple[Pick, ...]:
    """The swaps named by `NAME` or `NAME=ARGUMENT`. Raises UsageError."""
    picks: dict[str, Pick] = {}
    for text in texts:
        name, equals, argument = text.partition("=")
        swap = swap_named(name.strip())
        argument = argument.strip()
        if equals and not argument:
            raise UsageError(f"Swap {text!r} lacks its argument.", f"Write {name}=VALUE.")
        if argument and not swap.takes:
            raise UsageError(
                f"Swap {name} takes no argument, but got {argument!r}.",
                f"Give its name alone: --swap {name}.",
            )
        if argument and swap.check_argument is not None:
            try:
                swap.check_argument(argument)
            except Unfit as error:
                raise UsageError(f"Swap {text!r}: {error}.", f"It takes {swap.takes}.") from error
        if picks.get(swap.name, Pick(swap.name, argument)).argument != argument:
            raise UsageError(
                f"Swap {swap.name} is given twice, with different arguments.",
                "Give it once; one argument holds for all modules that it fits.",
            )
        picks[swap.name] = Pick(swap.name, argument)
    return tuple(picks.values())
