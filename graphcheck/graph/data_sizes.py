"""Sizes and numbers of a joint graph that depend on the data: torch's unbacked symbols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphcheck.graph.types import FromData

__all__ = ["from_data"]


def from_data(joint: Any) -> tuple[FromData, ...]:
    """Each symbol once, with the first call that has it, in the order of the graph."""
    import torch
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    found: dict[str, FromData] = {}
    for node in joint.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        for value in _values(node.meta.get("val")):
            size = isinstance(value, torch.Tensor)
            for symbol in sorted(free_unbacked_symbols(value), key=str):
                bound = joint.range_constraints.get(symbol)
                most = _number(getattr(bound, "upper", None))
                least = _number(getattr(bound, "lower", None)) or 0
                fact = FromData(str(symbol), node.name, most, size, least)
                found.setdefault(str(symbol), fact)
    return tuple(found.values())


def _number(bound: Any) -> int | None:
    """A bound as a number, None for infinity."""
    return int(bound) if getattr(bound, "is_Integer", False) else None


def _values(value: Any) -> Iterator[Any]:
    """The tensors and symbolic numbers among what a node gives."""
    import torch

    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _values(item)
    elif isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
        yield value
