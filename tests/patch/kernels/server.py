"""The child's side of `calling`: kernels of the runtime's registry, called on what comes in.

Neither torch nor graphcheck is imported: this process may run under a sanitizer.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from typing import Any


class Argument(ctypes.Structure):
    """As in caller.cpp."""


Argument._fields_ = (
    ("kind", ctypes.c_int32),
    ("dtype", ctypes.c_int32),
    ("rank", ctypes.c_int32),
    ("count", ctypes.c_int32),
    ("sizes", ctypes.c_int32 * 8),
    ("order", ctypes.c_uint8 * 8),
    ("data", ctypes.c_void_p),
    ("integer", ctypes.c_int64),
    ("number", ctypes.c_double),
    ("items", ctypes.POINTER(Argument)),
)
_NONE, _INT, _DOUBLE, _BOOL, _INTS, _TENSOR, _TENSORS, _BOOLS, _STRING = range(9)


def _argument(value: Any, kept: list[Any]) -> Argument:
    if value is None:
        return Argument(kind=_NONE)
    if isinstance(value, bool):
        return Argument(kind=_BOOL, integer=value)
    if isinstance(value, int):
        return Argument(kind=_INT, integer=value)
    if isinstance(value, float):
        return Argument(kind=_DOUBLE, number=value)
    if isinstance(value, str):
        text = ctypes.create_string_buffer(value.encode())
        kept.append(text)
        return Argument(kind=_STRING, count=len(value), data=ctypes.addressof(text))
    if isinstance(value, dict):
        memory = (ctypes.c_char * len(value["data"])).from_buffer_copy(value["data"])
        kept.append(memory)
        return Argument(
            kind=_TENSOR,
            dtype=value["dtype"],
            rank=len(value["sizes"]),
            sizes=(ctypes.c_int32 * 8)(*value["sizes"]),
            order=(ctypes.c_uint8 * 8)(*value["order"]),
            data=ctypes.addressof(memory) if value["data"] else None,
        )
    if all(isinstance(item, int) for item in value):
        kind = _BOOLS if value and all(isinstance(item, bool) for item in value) else _INTS
        numbers = (ctypes.c_int64 * max(1, len(value)))(*value)
        kept.append(numbers)
        return Argument(kind=kind, count=len(value), data=ctypes.addressof(numbers))
    items = (Argument * len(value))(*(_argument(item, kept) for item in value))
    kept.append(items)
    return Argument(kind=_TENSORS, count=len(value), items=items)


def main() -> None:
    """Load what the arguments name (the caller last), then answer calls until the end of input."""
    *shared, caller = sys.argv[1:]
    loaded = [ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL) for name in shared]
    call = ctypes.CDLL(caller).call_kernel
    output = sys.stdout.buffer
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        if "seed" in request:
            loaded[-1].graphcheck_kernels_seed(ctypes.c_uint64(request["seed"]))
            pickle.dump({}, output)
            output.flush()
            continue
        kept: list[Any] = []
        count = len(request["outputs"])
        values = [_argument(value, kept) for value in request["inputs"]]
        results = [(_argument(value, kept), kept[-1]) for value in request["outputs"]]
        array = (Argument * (len(values) + count))(*values, *(entry for entry, _ in results))
        seconds = ctypes.c_double(0)
        code = call(
            request["op"].encode(),
            array,
            len(array),
            count,
            int(request["fallback"]),
            request["repeats"],
            int(request["clear"]),
            ctypes.byref(seconds),
        )
        told = {
            "code": code,
            "seconds": seconds.value,
            "sizes": [tuple(entry.sizes[: entry.rank]) for entry in array[len(values) :]],
            "outputs": [bytes(memory) for _, memory in results],
        }
        pickle.dump(told, output)
        output.flush()


if __name__ == "__main__":
    main()
