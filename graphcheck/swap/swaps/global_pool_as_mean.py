"""Adaptive average pooling to size 1 as a mean."""

from __future__ import annotations

from graphcheck.swap.convert import as_layer
from graphcheck.swap.interface import Swap
from graphcheck.swap.source import renamed

__all__ = ["SWAP"]

_LAYERS = {f"AdaptiveAvgPool{rank}d": f"GlobalMean{rank}d" for rank in (1, 2, 3)}

SWAP = Swap(
    name="global-pool-as-mean",
    module=as_layer(_LAYERS, "mean over the spatial dimensions"),
    source=renamed(_LAYERS),
)
