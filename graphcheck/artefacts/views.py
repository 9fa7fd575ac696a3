"""Views that a program makes without an instruction.

Where sizes are fixed, lowering turns a view into a second tensor at the same place of the memory
plan: nobody writes it, its readers read what was last written there.
"""

from __future__ import annotations

from collections.abc import Callable

from graphcheck.graph.pte_types import PteMethod

__all__ = ["view_bases"]


def view_bases(method: PteMethod) -> Callable[[int], int]:
    """A function from a tensor to the tensor that it is a view of, itself if it is none."""
    values = method.values
    made = {
        tensor
        for instruction in method.instructions
        for index in (instruction.args if instruction.kind == "delegate" else instruction.writes)
        for tensor in method.tensors(index)
    }
    owner: dict[tuple[int, int], int] = {}
    bases: dict[int, int] = {}

    def base(index: int) -> int:
        return bases.get(index, index)

    def place_of(index: int) -> tuple[int, int] | None:
        place = values[index].allocation
        return (place.memory_id, place.offset) if place else None

    def look(index: int) -> None:
        place = place_of(index)
        if index not in made and index not in bases and place in owner:
            bases[index] = owner[place]

    for value in values:
        place = place_of(value.index)
        if place is not None and (value.initialized or value.index in method.inputs):
            owner.setdefault(place, value.index)
            made.add(value.index)
    for instruction in method.instructions:
        for index in instruction.reads:
            for tensor in method.tensors(index):
                look(tensor)
        for index in instruction.args if instruction.kind == "delegate" else instruction.writes:
            for tensor in method.tensors(index):
                place = place_of(tensor)
                if place is not None:
                    owner[place] = base(tensor)
    for index in method.outputs:
        for tensor in method.tensors(index):
            look(tensor)
    return base
