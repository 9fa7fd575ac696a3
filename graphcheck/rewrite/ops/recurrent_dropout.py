"""Recurrent operators with dropout between their layers, one layer at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES", "layered"]


def layered(
    op: str,
    x: Any,
    hidden: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """(result, last hidden state [layers * directions, B, H]), and the cell state of an LSTM.

    `hidden` is a tensor, a list of two for an LSTM. Parameters stand layer by layer, and direction
    by direction in a layer.
    """
    import torch

    if not train or not dropout or num_layers < 2:
        return NotImplemented
    overload = getattr(torch.ops.aten, op).input
    states = list(hidden) if isinstance(hidden, (list, tuple)) else [hidden]
    directions = 2 if bidirectional else 1
    each = len(params) // num_layers
    last: list[list[Any]] = []
    # Time comes first inside, as in torch: draws that are given must have eager's shape.
    x = x.transpose(0, 1) if batch_first else x
    for layer in range(num_layers):
        own = [state.narrow(0, layer * directions, directions) for state in states]
        # torch takes oneDNN's inference op for an input without gradient; it trains nothing.
        with torch.backends.mkldnn.flags(enabled=False):
            x, *ends = overload(
                x,
                own if isinstance(hidden, (list, tuple)) else own[0],
                list(params[layer * each : (layer + 1) * each]),
                has_biases,
                1,
                0.0,
                train,
                bidirectional,
                False,
            )
        last.append(ends)
        if layer < num_layers - 1:
            x = torch.ops.aten.dropout.default(x, dropout, True)
    x = x.transpose(0, 1) if batch_first else x
    return (x, *(torch.cat(parts) for parts in zip(*last, strict=True)))


def _rewrite(op: str) -> Rewrite:
    decompose: Callable[..., Any] = partial(layered, op)
    return Rewrite(
        name=f"{op}_dropout",
        op=f"aten.{op}.input",
        formula="layer 1 of x; then, layer by layer, that layer of dropout(y, p)",
        source="torch.nn.LSTM, on the argument dropout; Zaremba et al., 2014, equation 5",
        decompose=decompose,
        stage="forward",
        memory="the draw and the mask of each dropout, of the size of a layer's result",
        remark="before it is taken apart: torch's decomposition leaves the dropout out",
    )


REWRITES = tuple(_rewrite(op) for op in ("lstm", "gru", "rnn_tanh", "rnn_relu"))
