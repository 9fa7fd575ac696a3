"""The graph a program was emitted from, beside a dump of the program's instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphcheck.runtime.lower import Lowered, kernel_nodes
from graphcheck.runtime.types import InstructionDump, TensorData
from graphcheck.validate.measure import LOSS

__all__ = [
    "dump_sizes",
    "instructions_of_outputs",
    "loss_instruction",
    "reached",
    "results_made",
    "tensor_of",
    "values_of_outputs",
]


def tensor_of(data: TensorData) -> Any:
    """A torch tensor of its own with the dumped values, dtype and order of dims in memory."""
    import numpy
    import torch

    dtype = getattr(torch, data.dtype)
    plain = torch.from_numpy(numpy.array(data.array)).to(dtype)
    if not data.dim_order or list(data.dim_order) == sorted(data.dim_order):
        return plain.contiguous()
    order = list(data.dim_order)
    inverse = [order.index(dim) for dim in range(len(order))]
    return plain.permute(order).contiguous().permute(inverse)


def dump_sizes(lowered: Lowered) -> dict[int, int]:
    """How many bytes the dump of each instruction takes: its inputs and outputs, as planned."""
    import torch

    def size(node: Any) -> int:
        value = node.meta.get("val")
        values = value if isinstance(value, (list, tuple)) else (value,)
        total = 0
        for item in values:
            if isinstance(item, torch.Tensor):
                count = 1
                for length in item.shape:
                    count *= length if isinstance(length, int) else 1
                total += count * item.element_size()
        return total

    return {
        index: size(node) + sum(size(given) for given in node.all_input_nodes)
        for index, node in kernel_nodes(lowered.emitted).items()
    }


def loss_instruction(lowered: Lowered) -> int | None:
    """The instruction that makes the loss, None where it is not known."""
    indices = {node: index for index, node in kernel_nodes(lowered.emitted).items()}
    for spec, node in _outputs(lowered.emitted):
        if spec.kind.name == "LOSS_OUTPUT":
            return _maker(node, indices)
    return None


def values_of_outputs(
    lowered: Lowered, dump: Sequence[InstructionDump]
) -> tuple[float | None, dict[str, Any]]:
    """The loss and the gradients (by parameter, numpy) of a dumped step.

    They are followed through the graph, so they have their true names, whatever the program's
    metadata says. What no dumped instruction made is left out.
    """
    by_index = {record.instruction: record for record in dump}
    indices = {node: index for index, node in kernel_nodes(lowered.emitted).items()}
    loss: float | None = None
    gradients: dict[str, Any] = {}
    for spec, node in _outputs(lowered.emitted):
        array = _resolve(node, indices, by_index)
        if array is None:
            continue
        if spec.kind.name == "LOSS_OUTPUT":
            loss = float(array.reshape(-1)[0])
        elif spec.kind.name == "GRADIENT_TO_PARAMETER":
            gradients[str(spec.target)] = array
    return loss, gradients


def instructions_of_outputs(lowered: Lowered) -> tuple[int, ...]:
    """The instructions that make the loss and the gradients, as `values_of_outputs` needs them."""
    indices = {node: index for index, node in kernel_nodes(lowered.emitted).items()}
    found = (_maker(node, indices) for _, node in _outputs(lowered.emitted))
    return tuple(dict.fromkeys(index for index in found if index is not None))


def _maker(node: Any, indices: Mapping[Any, int]) -> int | None:
    """The instruction that makes a node, through getitem and views of memory."""
    while node not in indices:
        if getattr(node, "op", "") != "call_function" or not node.args:
            return None
        node = node.args[0]
    return indices[node]


def reached(lowered: Lowered, instruction: int) -> tuple[str, ...]:
    """What depends on the result of an instruction: parameters whose gradient does, or the loss.

    Names are those of the module; the loss is "loss", and comes last.
    """
    start = kernel_nodes(lowered.emitted).get(instruction)
    found = {start}
    waiting = [start] if start is not None else []
    while waiting:
        for user in waiting.pop().users:
            if user not in found:
                found.add(user)
                waiting.append(user)
    gradients = []
    loss: tuple[str, ...] = ()
    for spec, node in _outputs(lowered.emitted):
        if node in found and spec.kind.name == "GRADIENT_TO_PARAMETER":
            gradients.append(str(spec.target))
        elif node in found and spec.kind.name == "LOSS_OUTPUT":
            loss = (LOSS,)
    return (*gradients, *loss)


def _outputs(emitted: Any) -> Iterator[tuple[Any, Any]]:
    """Output specs with their nodes; emission removes those of mutated buffers from the graph."""
    nodes = list(emitted.graph.output_node().args[0])
    specs = list(emitted.graph_signature.output_specs)
    if len(nodes) != len(specs):
        specs = [spec for spec in specs if spec.kind.name != "BUFFER_MUTATION"]
    if len(nodes) == len(specs):
        yield from zip(specs, nodes, strict=True)


def _resolve(
    node: Any, indices: Mapping[Any, int], dump: Mapping[int, InstructionDump]
) -> Any | None:
    """The dumped value of a node, through getitem and views of memory."""
    import operator

    if node in indices:
        record = dump.get(indices[node])
        return record.outputs[0].array if record and record.outputs else None
    if getattr(node, "op", "") != "call_function":
        return None
    if node.target is operator.getitem:
        source, position = node.args
        record = dump.get(indices.get(source, -1))
        made = results_made(source)
        if record is None or len(record.outputs) != len(made) or not made[position]:
            return None
        return record.outputs[position].array
    if getattr(node.target, "__name__", "") == "view":
        base = _resolve(node.args[0], indices, dump)
        shape = tuple(node.meta["val"].shape)
        return None if base is None else base.reshape(shape)
    return None


def results_made(node: Any) -> list[bool]:
    """For each result of a kernel call, whether it is made; a masked one is empty in a dump."""
    outs = [argument.name for argument in node.target._schema.arguments if argument.is_out]
    return [node.kwargs.get(name) is not None for name in outs] or [True]
