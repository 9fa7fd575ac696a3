"""Which instructions of a program a gradient, the loss or a buffer depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from graphcheck.artefacts.views import view_bases
from graphcheck.graph.pte import read_before_written
from graphcheck.graph.pte_types import PteInstruction, PteMethod, TrainingMetadata
from graphcheck.graph.reach import SHAPE_ONLY

__all__ = ["Reached", "reach"]

_LIMIT = 8_000_000
"""Instructions times parameters: beyond it gradients are not told from each other."""


@dataclass
class Reached:
    """By number of instruction, what its results reach.

    `weights` are the names of parameters with a gradient by value, `loss_at` the instruction that
    makes the loss (-1: none does). Of a method that cannot be trained every output counts as loss.
    """

    weights: Mapping[int, str] = field(default_factory=dict)
    loss_at: int = -1
    names: tuple[str, ...] = ()
    buffer_names: tuple[str, ...] = ()
    masks: Mapping[int, int] = field(default_factory=dict)
    _seen: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def outcome(self, number: int) -> bool:
        """Whether the loss, or an output of an inference method, depends on it."""
        return bool(self.masks.get(number, 0) & 1)

    def buffers(self, number: int) -> tuple[str, ...]:
        mask = self.masks.get(number, 0) >> 1
        return tuple(name for i, name in enumerate(self.buffer_names) if mask >> i & 1)

    def gradients(self, number: int) -> tuple[str, ...]:
        mask = self.masks.get(number, 0) >> 1 + len(self.buffer_names)
        if mask not in self._seen:
            bits = bin(mask)[:1:-1]
            pairs = zip(bits, self.names, strict=False)
            self._seen[mask] = tuple(name for bit, name in pairs if bit == "1")
        return self._seen[mask]


def reach(method: PteMethod, stated: TrainingMetadata | None) -> Reached:
    """Follow the data back from the outputs. Gradients are found by their count, since the index
    that the file states for them may be wrong."""
    names = stated.names if stated is not None else ()
    outputs = method.outputs
    first = len(outputs) - 2 * len(names)
    if first < 1 or not names:
        names, first = (), len(outputs)
    gradients = outputs[first : first + len(names)]
    weights = dict(zip(outputs[first + len(names) :], names, strict=False))
    together = len(names) * len(method.instructions) > _LIMIT
    buffers = _buffers(method)
    begin = 1 + len(buffers)
    ends: dict[int, int] = {}
    for index in outputs[:first]:
        ends[index] = 1
    for position, index in enumerate(buffers):
        ends[index] = ends.get(index, 0) | 1 << 1 + position
    for position, index in enumerate(gradients):
        ends[index] = ends.get(index, 0) | 1 << begin + (0 if together else position)
    base = view_bases(method)
    return Reached(
        weights=weights,
        loss_at=_writer(method, base, outputs[0]) if names and outputs else -1,
        names=("every parameter",) if together else names,
        buffer_names=tuple(method.values[i].name or f"value {i}" for i in buffers),
        masks=_follow(method, base, ends),
    )


def _buffers(method: PteMethod) -> tuple[int, ...]:
    """State that an instruction changes in place."""
    state = {value.index for value in method.values if value.initialized}
    state.update(read_before_written(method))
    state.difference_update(method.inputs)
    written = (i.args[0] for i in method.instructions if _is_in_place(i.op) and i.args)
    return tuple(dict.fromkeys(index for index in written if index in state))[:64]


def _is_in_place(op: str) -> bool:
    return op.partition("::")[2].partition(".")[0].endswith("_")


def _writer(method: PteMethod, base: Callable[[int], int], value: int) -> int:
    value = base(value)
    return max((i.index for i in method.instructions if value in i.writes), default=-1)


def _follow(method: PteMethod, base: Callable[[int], int], ends: dict[int, int]) -> dict[int, int]:
    masks: dict[int, int] = {}
    loops = any(i.kind == "jump_false" for i in method.instructions)
    found: dict[int, int] = {}
    for index, bits in ends.items():
        found[base(index)] = found.get(base(index), 0) | bits
    # What a loop carries over is seen in a second pass.
    for _ in range(2 if loops else 1):
        for instruction in reversed(method.instructions):
            both = instruction.kind == "delegate"
            written = instruction.args if both else instruction.writes
            mask = 0
            for index in written:
                for tensor in method.tensors(index) or (index,):
                    mask |= found.get(base(tensor), 0)
            if instruction.kind == "jump_false":
                mask = _all_of(ends)
            masks[instruction.index] = mask
            if mask:
                for index in _data_of(instruction):
                    for tensor in method.tensors(index) or (index,):
                        found[base(tensor)] = found.get(base(tensor), 0) | mask
    return masks


def _data_of(instruction: PteInstruction) -> tuple[int, ...]:
    """The values whose data the result depends on, not their shape alone."""
    op = instruction.op.partition("::")[2].partition(".")[0]
    if op not in SHAPE_ONLY:
        return instruction.reads
    positions = SHAPE_ONLY[op]
    if positions is None:
        return ()
    shapes = {instruction.args[i] for i in positions if i < len(instruction.args)}
    return tuple(index for index in instruction.reads if index not in shapes)


def _all_of(ends: Mapping[int, int]) -> int:
    mask = 0
    for bits in ends.values():
        mask |= bits
    return mask
