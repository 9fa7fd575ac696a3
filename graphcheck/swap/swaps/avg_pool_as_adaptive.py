"""AvgPool2d as AdaptiveAvgPool2d(1): the same where the kernel covers the whole input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphcheck.swap.interface import Made, Swap

if TYPE_CHECKING:
    import libcst as cst

    from graphcheck.swap.source import Editor

__all__ = ["SWAP"]


def _make(module: Any, argument: str) -> Made:
    from torch import nn

    made = nn.AdaptiveAvgPool2d(1)
    made.train(module.training)
    return Made(made, "output size 1, whatever the input")


def _change(call: cst.Call, called: str, editor: Editor, argument: str) -> cst.BaseExpression:
    import libcst as cst

    func = editor.sibling(call.func, called, "AdaptiveAvgPool2d")
    return call.with_changes(func=func, args=[cst.Arg(cst.Integer("1"))])


SWAP = Swap(name="avg-pool-as-adaptive", module=_make, source=_change)
