"""Swaps on the live module before the export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphcheck.errors import UsageError
from graphcheck.export.types import SwapRecord
from graphcheck.opset.swaps import swap_catalogue
from graphcheck.swap.interface import parse_picks
from graphcheck.swap.live import Change, make_trainable
from graphcheck.workload.types import Workload

__all__ = ["swap_"]


def swap_(workload: Workload, swaps: Sequence[str]) -> tuple[Workload, tuple[SwapRecord, ...]]:
    """Make the named swaps in the user's module, in place; the workload of the result.

    Raises UsageError for a swap that cannot be meant, or that fits no module.
    """
    if not swaps:
        return workload, ()
    picks = parse_picks(swaps)
    path = workload.prefix.rstrip(".")
    module = workload.module.get_submodule(path) if path else workload.module
    result = make_trainable(module, swaps)
    done = [change for change in result.changes if change.done]
    for pick in picks:
        if not any(change.swap == pick.name for change in done):
            raise UsageError(
                f"--swap {pick} fits no module of the model{_why(result.changes)}.",
                "graphcheck check names the swaps of a model (GC601) and the modules they fit.",
            )
    if path:
        parent, _, name = path.rpartition(".")
        setattr(workload.module.get_submodule(parent), name, result.module)
    else:
        workload = replace(workload, module=result.module)
    return workload, tuple(_record(pick.name, done) for pick in picks)


def _why(changes: Sequence[Change]) -> str:
    reasons = [f"{change.module}: {change.what}" for change in changes if not change.done]
    return f" ({reasons[0]})" if reasons else ""


def _record(name: str, done: Sequence[Change]) -> SwapRecord:
    own = [change for change in done if change.swap == name]
    return SwapRecord(
        name=name,
        change=swap_catalogue()[name].change,
        modules=tuple(change.module for change in own),
        what=tuple(dict.fromkeys(change.what for change in own)),
    )
