"""Attention written out: the backward of the fused op has no out variant."""

from __future__ import annotations

from graphcheck.swap.convert import as_layer
from graphcheck.swap.interface import Swap
from graphcheck.swap.source import renamed

__all__ = ["SWAP"]

_LAYERS = {"MultiheadAttention": "ExplicitMultiheadAttention"}
_FUNCTIONS = {"scaled_dot_product_attention": "explicit_attention"}

SWAP = Swap(
    name="explicit-attention",
    module=as_layer(_LAYERS, "weights kept"),
    source=renamed({**_LAYERS, **_FUNCTIONS}),
)
