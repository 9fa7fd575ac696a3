"""MaxPool2d as a strided convolution with one window for all channels: another function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphcheck.swap.interface import Made, Swap, Unfit
from graphcheck.swap.source import LAYERS, bind

if TYPE_CHECKING:
    import libcst as cst

    from graphcheck.swap.source import Editor

__all__ = ["SWAP"]

_PARAMETERS = ("kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode")


def _make(module: Any, argument: str) -> Made:
    from graphcheck.layers import WindowConv2d

    if module.ceil_mode or module.return_indices:
        raise Unfit("it takes neither ceil_mode nor return_indices")
    made = WindowConv2d(module.kernel_size, module.stride, module.padding, module.dilation)
    made.train(module.training)
    return Made(made, "a window of its own to train, which starts as the mean")


def _change(call: cst.Call, called: str, editor: Editor, argument: str) -> cst.BaseExpression:
    import libcst as cst

    given = bind(call, _PARAMETERS)
    if "return_indices" in given or "ceil_mode" in given:
        raise Unfit("it takes neither ceil_mode nor return_indices")
    if isinstance(call.func, cst.Name):
        editor.dropped.add(("torch.nn", called))
    return call.with_changes(func=editor.name(LAYERS, "WindowConv2d"))


SWAP = Swap(name="max-pool-as-conv", module=_make, source=_change)
