"""The catalogue of module swaps, `opsets/swaps.yaml`: data that rules and swaps both read."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import msgspec

from graphcheck.errors import UsageError
from graphcheck.opset.format import read
from graphcheck.resources import opsets_dir

__all__ = ["SwapEntry", "swap_catalogue", "swaps_for_module"]


class SwapEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One swap as data.

    `change` is exact (the same function, up to the order of sums), numerics (the same forward,
    another gradient at a kink) or function. `modules` are class names of torch.nn, `functions`
    names of torch.nn.functional, `ops` the ops whose findings it mends. A swap that is `asked` is
    applied only by name.
    """

    name: str
    into: str
    change: Literal["exact", "numerics", "function"]
    modules: tuple[str, ...]
    ops: tuple[str, ...]
    remark: str
    functions: tuple[str, ...] = ()
    asked: bool = False

    @property
    def exact(self) -> bool:
        return self.change == "exact"


class _SwapFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    schema: int
    swaps: list[SwapEntry]


@lru_cache(maxsize=1)
def swap_catalogue() -> dict[str, SwapEntry]:
    """Every swap by name, in order of preference. Raises UsageError for a bad file."""
    path = opsets_dir() / "swaps.yaml"
    found: dict[str, SwapEntry] = {}
    for entry in read(path, _SwapFile).swaps:
        if entry.name in found:
            raise UsageError(f"{path}: two swaps have the name {entry.name}.")
        found[entry.name] = entry
    return found


def swaps_for_module(kind: str, op: str = "") -> tuple[SwapEntry, ...]:
    """Swaps for a class of torch.nn, preferred first; with `op` those that mend its findings."""
    return tuple(
        entry
        for entry in swap_catalogue().values()
        if kind in entry.modules and (not op or op in entry.ops)
    )
