"""Dropout with a mask of its own: the kernel does not scale the survivors."""

from __future__ import annotations

from graphcheck.swap.convert import as_layer
from graphcheck.swap.interface import Swap
from graphcheck.swap.source import renamed

__all__ = ["SWAP"]

_LAYERS = {f"Dropout{rank}": f"MaskDropout{rank}" for rank in ("", "1d", "2d", "3d")}
_FUNCTIONS = {f"dropout{rank}": f"mask_dropout{rank}" for rank in ("", "1d", "2d", "3d")}

SWAP = Swap(
    name="dropout-as-mask",
    module=as_layer(_LAYERS, "same distribution, another draw"),
    source=renamed({**_LAYERS, **_FUNCTIONS}),
)
