"""Conv1d as Conv2d of height 1: the kernel differentiates 2-d convolutions only."""

from __future__ import annotations

from graphcheck.swap.convert import as_layer
from graphcheck.swap.interface import Swap
from graphcheck.swap.source import renamed

__all__ = ["SWAP"]

_LAYERS = {"Conv1d": "Conv1dAsConv2d"}
_FUNCTIONS = {"conv1d": "conv1d_as_conv2d"}

SWAP = Swap(
    name="conv1d-as-conv2d",
    module=as_layer(_LAYERS, "weights kept, in their shape"),
    source=renamed({**_LAYERS, **_FUNCTIONS}),
)
