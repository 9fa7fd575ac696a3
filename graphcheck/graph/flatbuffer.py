"""Reading flatbuffer tables whose bytes cannot be trusted.

`flatbuffers.table.Table` trusts every offset. `Reader` checks each one against the buffer, and
spends a budget, so that a small file with shared or huge vectors cannot cost minutes or memory.
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["CorruptBufferError", "Reader"]

_BUDGET_PER_BYTE = 8
_BUDGET_FLOOR = 1 << 16
_FORMATS = {
    name: struct.Struct("<" + code)
    for name, code in {
        "bool": "?",
        "int8": "b",
        "uint8": "B",
        "uint16": "H",
        "int32": "i",
        "uint32": "I",
        "int64": "q",
        "uint64": "Q",
        "float64": "d",
    }.items()
}


class CorruptBufferError(Exception):
    """An offset, a length or a string of the flatbuffer is not valid."""


class _Purse:
    def __init__(self, size: int) -> None:
        self.left = _BUDGET_FLOOR + _BUDGET_PER_BYTE * size

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise CorruptBufferError("vectors larger than the file")


class Reader:
    """A table of a flatbuffer; fields are named by their slot, the order in the schema.

    A union takes two slots: its type, then its table. Every method raises CorruptBufferError for
    bytes that are no valid table.
    """

    __slots__ = ("_data", "_purse", "_table")

    def __init__(self, data: bytes, position: int, purse: _Purse | None = None) -> None:
        from flatbuffers.table import Table

        self._data = data
        self._purse = purse or _Purse(len(data))
        if not 0 <= position <= len(data) - 4:
            raise CorruptBufferError(f"a table at {position}")
        self._table = Table(data, position)

    @classmethod
    def root(cls, data: bytes) -> Reader:
        """The root table of a buffer."""
        if len(data) < 8:
            raise CorruptBufferError("no root table")
        return cls(data, _FORMATS["uint32"].unpack_from(data, 0)[0])

    def _scalar(self, kind: str, position: int) -> Any:
        form = _FORMATS[kind]
        if not 0 <= position <= len(self._data) - form.size:
            raise CorruptBufferError(f"an offset to {position}")
        return form.unpack_from(self._data, position)[0]

    def _field(self, slot: int) -> int:
        """The absolute position of a field, 0 if it is absent."""
        self._purse.spend(1)
        table = self._table
        vtable = table.Pos - self._scalar("int32", table.Pos)
        size = self._scalar("uint16", vtable)
        entry = 4 + 2 * slot
        if entry + 2 > size:
            return 0
        offset = self._scalar("uint16", vtable + entry)
        return table.Pos + offset if offset else 0

    def position(self, slot: int) -> int:
        """Where in the buffer a scalar field is stored, 0 if it is absent (has its default)."""
        return self._field(slot)

    def scalar(self, slot: int, kind: str, default: Any = 0) -> Any:
        """A number or bool; `kind` is numpy's name of it (`int32`)."""
        position = self._field(slot)
        return self._scalar(kind, position) if position else default

    def _target(self, slot: int) -> int | None:
        position = self._field(slot)
        return position + self._scalar("uint32", position) if position else None

    def table(self, slot: int) -> Reader | None:
        """A table, or a union's table."""
        target = self._target(slot)
        return None if target is None else Reader(self._data, target, self._purse)

    def string(self, slot: int) -> str:
        """A string, "" when absent."""
        target = self._target(slot)
        if target is None:
            return ""
        length = self._scalar("uint32", target)
        start = target + 4
        if start + length > len(self._data):
            raise CorruptBufferError("a string beyond the end of the file")
        self._purse.spend(length)
        try:
            return self._data[start : start + length].decode()
        except UnicodeDecodeError:
            raise CorruptBufferError("a string that is not UTF-8") from None

    def _vector(self, slot: int, item_size: int) -> tuple[int, int]:
        target = self._target(slot)
        if target is None:
            return 0, 0
        length = self._scalar("uint32", target)
        if target + 4 + length * item_size > len(self._data):
            raise CorruptBufferError("a vector beyond the end of the file")
        self._purse.spend(length)
        return target + 4, length

    def numbers(self, slot: int, kind: str) -> tuple[Any, ...]:
        """A vector of numbers, () when absent."""
        form = _FORMATS[kind]
        start, length = self._vector(slot, form.size)
        return struct.unpack_from(f"<{length}{form.format[-1]}", self._data, start)

    def tables(self, slot: int) -> list[Reader]:
        """A vector of tables, [] when absent."""
        start, length = self._vector(slot, 4)
        positions = range(start, start + 4 * length, 4)
        return [
            Reader(self._data, position + self._scalar("uint32", position), self._purse)
            for position in positions
        ]
