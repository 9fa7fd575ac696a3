"""Reading flatbuffer tables whose bytes cannot be trusted.

The `flatbuffers` package trusts every offset of the file, reads into other tables where one is
wrong, and imports numpy. `Reader` checks each offset against the buffer, and spends a budget, so
that a small file with shared or huge vectors cannot cost minutes or memory. It works on a memory
map: what is not read is not loaded.
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["CorruptBufferError", "Reader"]

_BUDGET_PER_BYTE = 8
_BUDGET_FLOOR = 1 << 16
_BUDGET_LIMIT = 3_000_000
"""Tables (8 each), numbers and characters: a program of 10 000 instructions takes one million."""
_TABLE_COST = 8
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
_UINT16 = _FORMATS["uint16"]
_INT32 = _FORMATS["int32"]
_UINT32 = _FORMATS["uint32"]


class CorruptBufferError(Exception):
    """An offset, a length or a string of the flatbuffer is not valid."""


class _Purse:
    def __init__(self, size: int) -> None:
        self.left = min(_BUDGET_FLOOR + _BUDGET_PER_BYTE * size, _BUDGET_LIMIT)
        self.small = self.left < _BUDGET_LIMIT

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            why = "vectors larger than the file" if self.small else "millions of entries"
            raise CorruptBufferError(why)


class Reader:
    """A table of a flatbuffer; fields are named by their slot, the order in the schema.

    A union takes two slots: its type, then its table. Every method raises CorruptBufferError for
    bytes that are no valid table.
    """

    __slots__ = ("_data", "_position", "_purse", "_vtable", "_vtable_size")

    def __init__(
        self, data: bytes | memoryview, position: int, purse: _Purse | None = None
    ) -> None:
        self._data = data
        self._purse = purse or _Purse(len(data))
        if not 0 <= position <= len(data) - 4:
            raise CorruptBufferError(f"a table at {position}")
        self._position = position
        vtable: int = position - _INT32.unpack_from(data, position)[0]
        if not 0 <= vtable <= len(data) - 4:
            raise CorruptBufferError(f"an offset to {vtable}")
        self._vtable = vtable
        # Entries beyond the end of the file are not there.
        self._vtable_size: int = min(_UINT16.unpack_from(data, vtable)[0], len(data) - vtable)

    @classmethod
    def root(cls, data: bytes | memoryview) -> Reader:
        """The root table of a buffer."""
        if len(data) < 8:
            raise CorruptBufferError("no root table")
        return cls(data, _UINT32.unpack_from(data, 0)[0])

    def spend(self, amount: int) -> None:
        """Account for work that the caller does in proportion to what the file says."""
        self._purse.spend(amount)

    def _length_at(self, position: int) -> int:
        """Lengths and offsets are 32-bit numbers."""
        if position > len(self._data) - 4:
            raise CorruptBufferError(f"an offset to {position}")
        number: int = _UINT32.unpack_from(self._data, position)[0]
        return number

    def _field(self, slot: int) -> int:
        """The absolute position of a field, 0 if it is absent."""
        entry = 4 + 2 * slot
        if entry + 2 > self._vtable_size:
            return 0
        offset: int = _UINT16.unpack_from(self._data, self._vtable + entry)[0]
        return self._position + offset if offset else 0

    def position(self, slot: int) -> int:
        """Where in the buffer a scalar field is stored, 0 if it is absent (has its default)."""
        return self._field(slot)

    def scalar(self, slot: int, kind: str, default: Any = 0) -> Any:
        """A number or bool; `kind` is numpy's name of it (`int32`)."""
        position = self._field(slot)
        if not position:
            return default
        form = _FORMATS[kind]
        if position > len(self._data) - form.size:
            raise CorruptBufferError(f"an offset to {position}")
        return form.unpack_from(self._data, position)[0]

    def _target(self, slot: int) -> int | None:
        position = self._field(slot)
        if not position:
            return None
        return position + self._length_at(position)

    def table(self, slot: int) -> Reader | None:
        """A table, or a union's table."""
        target = self._target(slot)
        if target is None:
            return None
        self._purse.spend(_TABLE_COST)
        return Reader(self._data, target, self._purse)

    def string(self, slot: int) -> str:
        """A string, "" when absent."""
        target = self._target(slot)
        if target is None:
            return ""
        length = self._length_at(target)
        start = target + 4
        if start + length > len(self._data):
            raise CorruptBufferError("a string beyond the end of the file")
        self._purse.spend(length)
        try:
            return bytes(self._data[start : start + length]).decode()
        except UnicodeDecodeError:
            raise CorruptBufferError("a string that is not UTF-8") from None

    def _vector(self, slot: int, item_size: int) -> tuple[int, int]:
        target = self._target(slot)
        if target is None:
            return 0, 0
        length = self._length_at(target)
        if target + 4 + length * item_size > len(self._data):
            raise CorruptBufferError("a vector beyond the end of the file")
        return target + 4, length

    def length(self, slot: int, item_size: int = 1) -> int:
        """The number of entries of a vector, which is not read."""
        return self._vector(slot, item_size)[1]

    def numbers(self, slot: int, kind: str) -> tuple[Any, ...]:
        """A vector of numbers, () when absent."""
        form = _FORMATS[kind]
        start, length = self._vector(slot, form.size)
        self._purse.spend(length)
        return struct.unpack_from(f"<{length}{form.format[-1]}", self._data, start)

    def tables(self, slot: int) -> list[Reader]:
        """A vector of tables, [] when absent."""
        start, length = self._vector(slot, 4)
        self._purse.spend(_TABLE_COST * length)
        offsets = struct.unpack_from(f"<{length}I", self._data, start)
        return [
            Reader(self._data, start + 4 * index + offset, self._purse)
            for index, offset in enumerate(offsets)
        ]
