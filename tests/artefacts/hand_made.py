"""Flatbuffers written by hand: what no exporter writes and an attacker might."""

from __future__ import annotations

import struct


class Builder:
    """Grows forward: a table is written before what it refers to, and patched."""

    def __init__(self) -> None:
        self.data = bytearray(64)

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def table(self, slots: dict[int, tuple[str, int]]) -> tuple[int, dict[int, int]]:
        """A table with these fields; "ref" is a place to patch. Its position, and those places."""
        count = max(slots) + 1
        self.align(8)
        vtable = len(self.data)
        self.data += struct.pack("<HH", 4 + 2 * count, 0) + bytes(2 * count)
        self.align(8)
        position = len(self.data)
        self.data += struct.pack("<i", position - vtable)
        places = {}
        for slot, (kind, value) in slots.items():
            self.align(8 if kind in "qQd" else 4)
            struct.pack_into("<H", self.data, vtable + 4 + 2 * slot, len(self.data) - position)
            if kind == "ref":
                places[slot] = len(self.data)
                self.data += bytes(4)
            else:
                self.data += struct.pack("<" + kind, value)
        return position, places

    def patch(self, place: int, target: int) -> None:
        struct.pack_into("<I", self.data, place, target - place)

    def numbers(self, kind: str, values: list[int]) -> int:
        self.align(8)
        self.data += bytes(4)
        position = len(self.data)
        self.data += struct.pack("<I", len(values)) + struct.pack(f"<{len(values)}{kind}", *values)
        return position

    def references(self, count: int) -> tuple[int, list[int]]:
        self.align(4)
        position = len(self.data)
        self.data += struct.pack("<I", count) + bytes(4 * count)
        return position, [position + 4 + 4 * index for index in range(count)]

    def finish(self, root: int) -> bytes:
        struct.pack_into(
            "<I4s4sIQQQ", self.data, 0, root, b"ET12", b"eh00", 32, len(self.data), 0, 0
        )
        return bytes(self.data)


def many_values(
    count: int, *, rank: int = 8, kind: int = 5, items: list[int] | None = None
) -> bytes:
    """A method with `count` values that are all the same table: small file, large program."""
    builder = Builder()
    root, places = builder.table({1: ("ref", 0)})
    plans, slots = builder.references(1)
    builder.patch(places[1], plans)
    plan, places = builder.table({2: ("ref", 0)})
    builder.patch(slots[0], plan)
    values, slots = builder.references(count)
    builder.patch(places[2], values)
    entry, places = builder.table({0: ("B", kind), 1: ("ref", 0)})
    for slot in slots:
        builder.patch(slot, entry)
    if items is not None:
        table, inner = builder.table({0: ("ref", 0)})
        builder.patch(places[1], table)
        builder.patch(inner[0], builder.numbers("i" if kind != 7 else "q", items))
    else:
        table, inner = builder.table({0: ("b", 6), 2: ("ref", 0), 3: ("ref", 0)})
        builder.patch(places[1], table)
        builder.patch(inner[2], builder.numbers("i", [2] * rank))
        builder.patch(inner[3], builder.numbers("B", [n % 256 for n in range(rank)]))
    return builder.finish(root)
