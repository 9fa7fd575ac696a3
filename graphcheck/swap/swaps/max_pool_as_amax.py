"""Max pooling with stride = kernel as view and amax; a tie shares its gradient."""

from __future__ import annotations

from graphcheck.swap.convert import as_layer
from graphcheck.swap.interface import Swap
from graphcheck.swap.source import renamed

__all__ = ["SWAP"]

_LAYERS = {f"MaxPool{rank}d": f"AmaxPool{rank}d" for rank in (1, 2, 3)}

SWAP = Swap(
    name="max-pool-as-amax",
    module=as_layer(_LAYERS, "view and amax"),
    source=renamed(_LAYERS),
)
