"""Average pooling as a depthwise convolution with constant weights."""

from __future__ import annotations

from graphcheck.swap.convert import as_layer
from graphcheck.swap.interface import Swap
from graphcheck.swap.source import renamed

__all__ = ["SWAP"]

_LAYERS = {f"AvgPool{rank}d": f"ConvAvgPool{rank}d" for rank in (1, 2)}

_FUNCTIONS = {"avg_pool2d": "conv_avg_pool2d"}

SWAP = Swap(
    name="avg-pool-as-conv",
    module=as_layer(_LAYERS, "a depthwise convolution with constant weights"),
    source=renamed({**_LAYERS, **_FUNCTIONS}),
)
