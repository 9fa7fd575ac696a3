"""Average pooling with stride = kernel as view and mean."""

from __future__ import annotations

from graphcheck.swap.convert import as_layer
from graphcheck.swap.interface import Swap
from graphcheck.swap.source import renamed

__all__ = ["SWAP"]

_LAYERS = {f"AvgPool{rank}d": f"MeanAvgPool{rank}d" for rank in (1, 2, 3)}

SWAP = Swap(
    name="avg-pool-as-mean",
    module=as_layer(_LAYERS, "view and mean"),
    source=renamed(_LAYERS),
)
