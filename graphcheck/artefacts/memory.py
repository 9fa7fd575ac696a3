"""How much memory a program takes at each instruction, and what takes it.

The memory plan is in the program: where each tensor lies. How long it lives follows from who
writes and who reads it. What kernels allocate for themselves while they run is not in the file.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphcheck.artefacts.calls import Modules
from graphcheck.artefacts.facts import describe_value
from graphcheck.artefacts.memory_types import BigTensor, MethodMemory, RewriteMemory
from graphcheck.artefacts.reach import Reached, reach
from graphcheck.artefacts.views import view_bases
from graphcheck.graph.pte_types import PteMethod, PteProgram, PteValue

__all__ = ["Life", "memory_of", "rewrite_memory"]

_LARGEST = 10
_KINDS = ("weight", "buffer", "input", "gradient", "activation")


@dataclass(frozen=True)
class Life:
    """A planned tensor from the instruction that makes it to the last one that looks at it."""

    value: PteValue
    first: int
    last: int
    kind: str
    made_by: int

    @property
    def place(self) -> tuple[int, int]:
        assert self.value.allocation is not None
        return self.value.allocation.memory_id, self.value.allocation.offset


def memory_of(program: PteProgram, method: PteMethod, modules: Sequence[str] = ()) -> MethodMemory:
    """The memory of a method; `modules` names one for each instruction, where that is known."""
    reached = reach(method, program.training.get(method.name))
    named = modules or _modules(method, reached)
    lives = _lives(method, reached)
    curve = _curve(lives, len(method.instructions))
    peak = max(curve, default=0)
    at = curve.index(peak) if curve else 0
    totals = dict.fromkeys(_KINDS, 0)
    for life in lives:
        totals[life.kind] += life.value.nbytes
    alive = [life for life in lives if life.first <= at <= life.last]
    constants = {v.data: v.nbytes for v in method.values if v.constant and not v.external}
    instruction = method.instructions[at] if method.instructions else None
    return MethodMemory(
        method=method.name,
        arena=method.arena_bytes,
        constants=sum(constants.values()),
        external=sum(v.nbytes for v in method.values if v.external),
        weights=totals["weight"],
        buffers=totals["buffer"],
        inputs=totals["input"],
        gradients=totals["gradient"],
        peak=peak,
        peak_at=at,
        peak_op=instruction.op or instruction.kind if instruction else "",
        peak_module=named[at] if at < len(named) else "",
        loss_at=reached.loss_at,
        instructions=len(method.instructions),
        at_peak={kind: _taken(life for life in alive if life.kind == kind) for kind in _KINDS},
        curve=tuple(curve),
        largest=tuple(_largest(method, lives, named, reached)),
    )


def rewrite_memory(
    program: PteProgram, method: PteMethod, rewrites: Sequence[str]
) -> tuple[RewriteMemory, ...]:
    """What each rewrite takes; `rewrites` names one for each instruction, "" for none."""
    reached = reach(method, program.training.get(method.name))
    lives = _lives(method, reached)
    peak = max(_curve(lives, len(method.instructions)), default=0)
    readers: dict[int, set[str]] = {}
    for instruction, name in zip(method.instructions, rewrites, strict=False):
        for index in instruction.reads:
            for tensor in method.tensors(index):
                readers.setdefault(tensor, set()).add(name)
    outputs = set(method.outputs)
    found = []
    for name in sorted(set(rewrites) - {""}):
        own = {number for number, rewrite in enumerate(rewrites) if rewrite == name}
        made = [life for life in lives if life.made_by in own]
        inner = {
            life.value.index
            for life in made
            if readers.get(life.value.index, set()) <= {name} and life.value.index not in outputs
        }
        rest = [life for life in lives if life.value.index not in inner]
        without = max(_curve(rest, len(method.instructions)), default=0)
        written = sum(life.value.nbytes for life in made)
        found.append(RewriteMemory(name, len(own), written, peak - without))
    return tuple(found)


def _modules(method: PteMethod, reached: Reached) -> list[str]:
    names = Modules(method, reached, alone=True)
    return [names.of(instruction).module for instruction in method.instructions]


def _lives(method: PteMethod, reached: Reached) -> list[Life]:
    """Of every planned tensor. State lives all the time; inputs and outputs from or to the end."""
    end = max(len(method.instructions) - 1, 0)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    made: dict[int, int] = {}
    for instruction in method.instructions:
        number = instruction.index
        written = instruction.args if instruction.kind == "delegate" else instruction.writes
        for index in written:
            for tensor in method.tensors(index):
                made.setdefault(tensor, number)
        for index in instruction.args:
            for tensor in method.tensors(index):
                first.setdefault(tensor, number)
                last[tensor] = number
    base = view_bases(method)
    for index in [index for index in first if base(index) != index]:
        # A view without instruction: its memory is held since it was written.
        made.setdefault(index, made.get(base(index), -1))
        first[index] = min(first[index], first.get(base(index), first[index]))
    kinds = _kinds(method, reached)
    loops = any(instruction.kind == "jump_false" for instruction in method.instructions)
    lives = []
    for value in method.values:
        if value.allocation is None or value.kind != "tensor":
            continue
        index = value.index
        kind = kinds.get(index) or kinds.get(base(index), "activation")
        # The plan reuses the memory of an input once nobody looks at it any more.
        whole = loops or kind in ("weight", "buffer")
        given = index in method.inputs
        stays = whole or index in method.outputs
        if index not in first and not stays and not given:
            continue
        start = 0 if whole or given else first.get(index, 0)
        finish = end if stays else last.get(index, 0)
        lives.append(Life(value, start, finish, kind, made.get(index, -1)))
    return lives


def _kinds(method: PteMethod, reached: Reached) -> dict[int, str]:
    kinds = {value.index: "buffer" for value in method.values if value.initialized}
    kinds.update(dict.fromkeys(method.inputs, "input"))
    kinds.update(dict.fromkeys(reached.weights, "weight"))
    count = len(reached.weights)
    if count:
        for index in method.outputs[len(method.outputs) - 2 * count : -count]:
            kinds.setdefault(index, "gradient")
    return kinds


def _curve(lives: Iterable[Life], count: int) -> list[int]:
    """Bytes in use at each instruction; tensors at one place (views) count once, the largest."""
    starts: list[list[Life]] = [[] for _ in range(count)]
    ends: list[list[tuple[int, int]]] = [[] for _ in range(count + 1)]
    for life in lives:
        if life.first < count:
            starts[life.first].append(life)
            ends[min(life.last, count - 1) + 1].append(life.place)
    heaps: dict[tuple[int, int], list[tuple[int, int]]] = {}
    sizes: dict[tuple[int, int], int] = {}
    total = 0
    curve = []
    for now in range(count):
        touched = dict.fromkeys(ends[now])
        for life in starts[now]:
            heapq.heappush(heaps.setdefault(life.place, []), (-life.value.nbytes, life.last))
            touched[life.place] = None
        for place in touched:
            heap = heaps[place]
            while heap and heap[0][1] < now:
                heapq.heappop(heap)
            size = -heap[0][0] if heap else 0
            total += size - sizes.get(place, 0)
            sizes[place] = size
        curve.append(total)
    return curve


def _taken(lives: Iterable[Life]) -> int:
    """Bytes of tensors that live at one time; those at one place count once."""
    places: dict[tuple[int, int], int] = {}
    for life in lives:
        places[life.place] = max(places.get(life.place, 0), life.value.nbytes)
    return sum(places.values())


def _largest(
    method: PteMethod, lives: Iterable[Life], modules: Sequence[str], reached: Reached
) -> Iterable[BigTensor]:
    """The largest tensors; a view is part of what it shows."""
    chosen: dict[tuple[tuple[int, int], int, int], Life] = {}
    for life in sorted(lives, key=_by_size):
        viewed = any(
            place == life.place and begin <= life.first <= finish for place, begin, finish in chosen
        )
        if not viewed:
            chosen[(life.place, life.first, life.last)] = life
        if len(chosen) == _LARGEST:
            break
    for life in chosen.values():
        by = life.made_by
        known = 0 <= by < len(method.instructions) and life.kind in ("gradient", "activation")
        yield BigTensor(
            tensor=describe_value(life.value),
            size=life.value.nbytes,
            op=method.instructions[by].op if known else life.kind,
            module=_module(life, modules, reached),
            kind=life.kind,
            first=life.first,
            last=life.last,
        )


def _by_size(life: Life) -> tuple[int, int, int]:
    return (-life.value.nbytes, life.first, life.value.index)


def _module(life: Life, modules: Sequence[str], reached: Reached) -> str:
    if life.kind in ("weight", "buffer"):
        return reached.weights.get(life.value.index) or life.value.name
    return modules[life.made_by] if 0 <= life.made_by < len(modules) else ""
