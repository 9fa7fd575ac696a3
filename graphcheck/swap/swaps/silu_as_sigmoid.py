"""SiLU as x * sigmoid(x)."""

from __future__ import annotations

from graphcheck.swap.convert import as_layer
from graphcheck.swap.interface import Swap
from graphcheck.swap.source import renamed

__all__ = ["SWAP"]

_LAYERS = {"SiLU": "SigmoidSiLU"}
_FUNCTIONS = {"silu": "sigmoid_silu"}

SWAP = Swap(
    name="silu-as-sigmoid",
    module=as_layer(_LAYERS, "x * sigmoid(x)"),
    source=renamed({**_LAYERS, **_FUNCTIONS}),
)
