"""Constant padding by torch.cat: the backward of a pad is a pad with negative lengths."""

from __future__ import annotations

from graphcheck.swap.convert import as_layer
from graphcheck.swap.interface import Swap
from graphcheck.swap.source import renamed

__all__ = ["SWAP"]

_LAYERS = {
    f"{kind}Pad{rank}d": f"Cat{kind}Pad{rank}d"
    for kind in ("Zero", "Constant")
    for rank in (1, 2, 3)
}
_FUNCTIONS = {"pad": "pad_by_cat"}

SWAP = Swap(
    name="pad-as-cat",
    module=as_layer(_LAYERS, "constants joined by torch.cat"),
    source=renamed({**_LAYERS, **_FUNCTIONS}),
)
