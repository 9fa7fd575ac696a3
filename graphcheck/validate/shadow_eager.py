"""One instruction again in eager PyTorch: its op, and the inputs the runtime gave it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from graphcheck.runtime.types import InstructionDump, TensorData
from graphcheck.validate.emitted import results_made, tensor_of

__all__ = ["Replay", "functional_tags", "given_arguments", "widened"]


def functional_tags(node: Any) -> tuple[Any, ...]:
    """Tags of the op and of its functional overloads: out variants do not always carry them."""
    tags: list[Any] = list(node.target.tags)
    packet = node.target.overloadpacket
    for overload in packet.overloads():
        tags += getattr(packet, overload).tags
    return tuple(tags)


def given_arguments(node: Any, record: InstructionDump) -> dict[str, Any]:
    """The arguments by name: constants as the graph has them, tensors as the runtime had them."""
    return {
        argument.name: _value(node, position, argument, record.arguments)
        for position, argument in enumerate(node.target._schema.arguments)
        if not argument.is_out and position < len(record.arguments)
    }


def _value(node: Any, position: int, argument: Any, dumped: Sequence[Any]) -> Any:
    import torch

    if position < len(node.args) and not argument.kwarg_only:
        held = node.args[position]
    else:
        held = node.kwargs.get(argument.name, argument.default_value)
    computed = isinstance(held, torch.fx.Node) or (
        isinstance(held, (list, tuple)) and any(isinstance(item, torch.fx.Node) for item in held)
    )
    return _restore(dumped[position]) if computed else held


def _restore(value: Any) -> Any:
    if isinstance(value, TensorData):
        return tensor_of(value)
    if isinstance(value, (list, tuple)):
        return [_restore(item) for item in value]
    return value


class Replay:
    """The op of a node on given arguments: as it is, in float64, on other values.

    Raises NotImplementedError where the op cannot be run alone.
    """

    def __init__(self, node: Any, given: Mapping[str, Any], record: InstructionDump) -> None:
        import torch

        self.given = dict(given)
        self.target = _callable(node)
        self.dtypes = [getattr(torch, output.dtype) for output in record.outputs]
        self.outs = [a.name for a in self.target._schema.arguments if a.is_out]
        if self.outs and len(self.outs) != len(self.dtypes):
            raise NotImplementedError("another number of results")

    def native(self, mode: Any = None) -> list[Any]:
        """Results in the dtypes of the runtime; None for one that is masked out."""
        return self.run(self.given, self.dtypes, mode)

    def exact(self, given: Mapping[str, Any] | None = None) -> list[Any]:
        """Results with every floating tensor in float64."""
        import torch

        wide = {name: widened(value) for name, value in (given or self.given).items()}
        dtypes = [torch.float64 if d.is_floating_point else d for d in self.dtypes]
        return self.run(wide, dtypes)

    def run(self, given: Mapping[str, Any], dtypes: Sequence[Any], mode: Any = None) -> list[Any]:
        """Results on these arguments, which stay as they are."""
        import torch

        values = dict(given)
        for argument in self.target._schema.arguments:
            if argument.alias_info is not None and argument.alias_info.is_write:
                values[argument.name] = copy.deepcopy(values.get(argument.name))
        for name, dtype in zip(self.outs, dtypes, strict=False):
            values[name] = torch.empty(0, dtype=dtype)
        with torch.no_grad(), mode or nullcontext():
            results = self.target(**values)
        listed = list(results) if isinstance(results, (list, tuple)) else [results]
        if len(listed) != len(self.dtypes):
            raise NotImplementedError("another number of results")
        return listed


def widened(value: Any) -> Any:
    """Floating tensors in float64, alone or in a list."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype.is_floating_point else value
    if isinstance(value, list):
        return [widened(item) for item in value]
    return value


def _callable(node: Any) -> Any:
    """The out variant itself, or the functional op where some of its results are masked out or
    where they are one list."""
    target = node.target
    listed = any(a.is_out and "List" in str(a.type) for a in target._schema.arguments)
    if all(results_made(node)) and not listed:
        return target
    names = [argument.name for argument in target._schema.arguments if not argument.is_out]
    packet = target.overloadpacket
    for overload in packet.overloads():
        found = getattr(packet, overload)
        if [argument.name for argument in found._schema.arguments] == names:
            return found
    raise NotImplementedError("no functional overload")
