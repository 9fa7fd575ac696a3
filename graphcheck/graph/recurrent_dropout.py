"""Dropout between the layers of nn.LSTM, nn.GRU and nn.RNN, which torch's decomposition drops.

The operator of the exported program has the dropout for an argument. torch (2.14) takes it apart
with `torch._decomp.decompositions._rnn_helper`, which sets it to zero unless `num_layers < i - 1`
for a layer i of them, which is never so; the joint graph then computes what eval mode does. Found
by looking: an operator with dropout from which no random operator has come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphcheck.graph.provenance import Provenance
from graphcheck.graph.trace import MARK
from graphcheck.graph.types import LostDropout

__all__ = ["lost_dropout"]

_RECURRENT = ("aten.lstm.", "aten.gru.", "aten.rnn_tanh.", "aten.rnn_relu.")


def lost_dropout(exported: Any, joint: Any, provenance: Provenance) -> Iterator[LostDropout]:
    """The recurrent operators of the exported program whose dropout the joint graph has not."""
    for node in exported.graph.nodes:
        if node.op != "call_function" or not str(node.target).startswith(_RECURRENT):
            continue
        given = _arguments(node)
        if not (given["train"] and given["dropout"] and given["num_layers"] > 1):
            continue
        made = [
            other
            for other in joint.graph.nodes
            if (other.meta.get("custom") or {}).get(MARK) == node.name
        ]
        if made and not any(map(_is_random, made)):
            op = str(node.target).rpartition(".")[0]
            source = provenance.of_exported(node)
            yield LostDropout(op, given["dropout"], made[0].name, source)


def _arguments(node: Any) -> dict[str, Any]:
    """The arguments after the tensors, by schema name."""
    names = [argument.name for argument in node.target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _is_random(node: Any) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
