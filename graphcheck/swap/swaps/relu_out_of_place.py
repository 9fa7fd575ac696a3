"""Activations out of place: nothing is overwritten that autograd or a rewrite may need."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from graphcheck.swap.interface import Made, Swap, Unfit

if TYPE_CHECKING:
    import libcst as cst

    from graphcheck.swap.source import Editor

__all__ = ["SWAP"]

_ONLY_INPLACE = ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid")


def _make(module: Any, argument: str) -> Made:
    if not getattr(module, "inplace", False):
        raise Unfit("it is not in place")
    made = copy.copy(module)
    made.inplace = False
    return Made(made, "inplace=False")


def _change(call: cst.Call, called: str, editor: Editor, argument: str) -> cst.BaseExpression:
    import libcst as cst

    for index, given in enumerate(call.args):
        if given.keyword and given.keyword.value == "inplace":
            return call.with_changes(args=_without(call.args, index))
    first = call.args[0] if len(call.args) == 1 else None
    if first is not None and called in _ONLY_INPLACE and not first.star:
        return call.with_changes(args=[])
    if call.args and isinstance(call.args[-1].value, cst.Name):
        raise Unfit("inplace is not given by name")
    raise Unfit("it is not in place")


def _without(arguments: Any, index: int) -> list[Any]:
    import libcst as cst

    kept = [a for position, a in enumerate(arguments) if position != index]
    if kept and index == len(arguments) - 1:
        # What stood before the last comma keeps its place before the closing bracket.
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return kept


SWAP = Swap(name="relu-out-of-place", module=_make, source=_change)
