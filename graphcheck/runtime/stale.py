"""From what the detector measured to what is at fault, and what that reaches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphcheck.graph.pte import PteInstruction, PteMethod
from graphcheck.runtime.types import InstructionOutput, UncheckedInstruction
from graphcheck.runtime.wire import Finding

__all__ = ["judge"]

_LEFT_OPEN = ("empty", "new_empty")
"""Ops that give memory as it is: by contract, nobody may read it before it is written."""

_RANDOM = (
    "bernoulli",
    "exponential",
    "multinomial",
    "native_dropout",
    "normal",
    "rand",
    "uniform",
)
"""Ops that may give equal results by chance (a dropout of few entries) and another one later."""

_Range = tuple[int, int, int]


def judge(
    method: PteMethod, findings: Sequence[Finding]
) -> tuple[tuple[InstructionOutput, ...], tuple[UncheckedInstruction, ...]]:
    """Flagged instructions (root causes and what they reach), and those that were not judged.

    A root cause has an output that depends on what its memory held before and that somebody
    reads. An output nobody reads (a gradient masked out, an unused statistic) is no fault, nor is
    the result of `aten::empty` until a difference comes out of it. An instruction that differs
    though nothing flagged feeds it reads memory beyond its arguments: a root cause, too.
    """
    unchecked: dict[int, str] = {}
    flagged: dict[int, tuple[int, ...]] = {}
    suspects: dict[int, Finding] = {}
    for finding in findings:
        index = finding.instruction
        instruction = method.instructions[index]
        differs = any(output.stale or output.reached for output in finding.outputs)
        if finding.random or (differs and _starts(instruction.op, _RANDOM)):
            unchecked[index] = "gives another result each time: it is random"
            continue
        stale = [output.value for output in finding.outputs if output.stale]
        if stale and _starts(instruction.op, _LEFT_OPEN):
            suspects[index] = finding
        elif any(_is_read(method, index, value) for value in stale):
            flagged[index] = ()
        elif any(output.reached and not output.stale for output in finding.outputs):
            producers = _producers(method, instruction, flagged.keys() | suspects.keys())
            for producer in producers:
                if producer in suspects:
                    flagged.setdefault(producer, ())
            flagged[index] = producers
    for instruction in method.instructions:
        if instruction.kind == "delegate":
            unchecked[instruction.index] = "a delegate: its inputs and outputs cannot be told apart"
    for index in suspects:
        if index not in flagged:
            unchecked[index] = "leaves its memory as it was, by contract"
    return (
        tuple(
            InstructionOutput(index, method.instructions[index].op, flagged[index])
            for index in sorted(flagged)
        ),
        tuple(
            UncheckedInstruction(index, _name(method.instructions[index]), reason)
            for index, reason in sorted(unchecked.items())
        ),
    )


def _name(instruction: PteInstruction) -> str:
    return instruction.op or instruction.kind


def _starts(op: str, names: tuple[str, ...]) -> bool:
    return op.partition("::")[2].startswith(names)


def _ranges(method: PteMethod, values: Iterable[int]) -> list[_Range]:
    """Planned memory of the tensors among these values: memory id, begin, end."""
    found = []
    for index in values:
        for tensor in method.tensors(index):
            value = method.values[tensor]
            place = value.allocation
            if place is not None and value.nbytes:
                found.append((place.memory_id, place.offset, place.offset + value.nbytes))
    return found


def _overlap(first: _Range, second: _Range) -> bool:
    return first[0] == second[0] and first[1] < second[2] and second[1] < first[2]


def _covers(outer: _Range, inner: _Range) -> bool:
    return outer[0] == inner[0] and outer[1] <= inner[1] and inner[2] <= outer[2]


def _is_read(method: PteMethod, index: int, value: int) -> bool:
    """Whether an output of instruction `index` is read before it is written over.

    Ranges are compared, not value indices: a view that the emitter elided has an index of its
    own on the same memory. In programs with jumps every reader counts.
    """
    ranges = _ranges(method, (value,))
    if not ranges:
        return True
    loops = any(entry.kind == "jump_false" for entry in method.instructions)
    for instruction in method.instructions[0 if loops else index + 1 :]:
        if any(_overlap(a, b) for a in ranges for b in _ranges(method, instruction.reads)):
            return True
        written = _ranges(method, instruction.writes)
        if not loops and all(any(_covers(w, r) for w in written) for r in ranges):
            return False
    return any(_overlap(a, b) for a in ranges for b in _ranges(method, method.outputs))


def _producers(
    method: PteMethod, instruction: PteInstruction, flagged: Iterable[int]
) -> tuple[int, ...]:
    """The flagged instructions that last wrote what this one reads."""
    candidates = set(flagged)
    found = set()
    for read in _ranges(method, instruction.reads):
        open_parts = [read]
        for earlier in reversed(method.instructions[: instruction.index]):
            for written in _ranges(method, earlier.writes):
                if any(_overlap(written, part) for part in open_parts):
                    if earlier.index in candidates:
                        found.add(earlier.index)
                    open_parts = [part for p in open_parts for part in _subtract(p, written)]
            if not open_parts:
                break
    return tuple(sorted(found))


def _subtract(part: _Range, hole: _Range) -> list[_Range]:
    if not _overlap(part, hole):
        return [part]
    rest = [(part[0], part[1], hole[1]), (part[0], hole[2], part[2])]
    return [(number, begin, end) for number, begin, end in rest if begin < end]
