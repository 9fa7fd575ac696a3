"""Reading a `.pte` program without torch or executorch: what it runs, on what memory.

The layout is that of `schema/program.fbs` of ExecuTorch 1.5 (file identifier `ET12`), which has
only grown since 0.6.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from graphcheck.errors import ModelError
from graphcheck.graph.flatbuffer import CorruptBufferError, Reader
from graphcheck.graph.pte_file import open_program, program_bytes
from graphcheck.graph.pte_types import (
    Allocation,
    PteInstruction,
    PteMethod,
    PteProgram,
    PteValue,
    TrainingMetadata,
)
from graphcheck.spill import Buffer

__all__ = [
    "Allocation",
    "PteInstruction",
    "PteMethod",
    "PteProgram",
    "PteValue",
    "TrainingMetadata",
    "read_before_written",
    "read_pte",
]

_RANK_LIMIT = 16
"""Of the runtime (`kTensorDimensionLimit`)."""
_DTYPES = {
    0: ("uint8", 1),
    1: ("int8", 1),
    2: ("int16", 2),
    3: ("int32", 4),
    4: ("int64", 8),
    5: ("float16", 2),
    6: ("float32", 4),
    7: ("float64", 8),
    11: ("bool", 1),
    12: ("qint8", 1),
    13: ("quint8", 1),
    14: ("qint32", 4),
    15: ("bfloat16", 2),
    16: ("quint4x2", 1),
    17: ("quint2x4", 1),
    22: ("bits16", 2),
    23: ("float8_e5m2", 1),
    24: ("float8_e4m3fn", 1),
    25: ("float8_e5m2fnuz", 1),
    26: ("float8_e4m3fnuz", 1),
    27: ("uint16", 2),
    28: ("uint32", 4),
    29: ("uint64", 8),
}
_OPERATOR = re.compile(r"[A-Za-z0-9_:.+-]{1,300}")
_LISTS_OF_VALUES = ("int_list", "tensor_list", "optional_tensor_list")
_DYNAMISM: dict[int, Literal["static", "bound", "unbound"]] = {
    0: "static",
    1: "bound",
    2: "unbound",
}
_INSTRUCTIONS: dict[int, Literal["kernel", "delegate", "move", "jump_false", "free"]] = {
    1: "kernel",
    2: "delegate",
    3: "move",
    4: "jump_false",
    5: "free",
}
_WRITES_FIRST = frozenset({"executorch_prim::et_copy_index.tensor"})
"""Kernels that write their first argument and return nothing."""


def read_pte(source: Path | str | Buffer) -> PteProgram:
    """Read a program from a file or from its bytes; data of weights and delegates is not loaded.

    Raises ModelError for a file that is missing, no ExecuTorch program, truncated or corrupt.
    """
    if isinstance(source, Buffer):
        return _read(source, "the program")
    name = str(source)
    with open_program(name) as data:
        return _read(data, name)


def _read(data: Buffer, name: str) -> PteProgram:
    view = memoryview(data)
    try:
        program, segments = program_bytes(view, name)
        return _read_program(program, segments, len(view))
    except CorruptBufferError as error:
        raise ModelError(
            f"{name} is a damaged ExecuTorch program: {error}", "Export the model again."
        ) from None
    finally:
        # What an error's traceback still holds of the map must not keep it open.
        view.release()


def read_before_written(method: PteMethod) -> tuple[int, ...]:
    """Planned tensors an instruction reads though nobody wrote them and the file has no data.

    A mutated buffer that was exported without its initial state is one: it starts with whatever
    the app's memory holds, zeros in most. Views are known by their place. Programs with jumps
    are taken in the order of their instructions.
    """
    planned = [v for v in method.values if v.initialized or v.index in method.inputs]
    known = {
        (value.allocation.memory_id, value.allocation.offset)
        for value in planned
        if value.allocation
    }
    found: dict[int, None] = {}
    for instruction in method.instructions:
        for index in instruction.reads:
            for tensor in method.tensors(index):
                value = method.values[tensor]
                place = value.allocation
                if place and value.nbytes and (place.memory_id, place.offset) not in known:
                    found.setdefault(tensor)
        for index in instruction.writes:
            place = method.values[index].allocation
            if place:
                known.add((place.memory_id, place.offset))
    return tuple(found)


def _read_program(data: memoryview, segment_base: int, size: int) -> PteProgram:
    root = Reader.root(data)
    segments = tuple(
        (entry.scalar(0, "uint64"), entry.scalar(1, "uint64")) for entry in root.tables(4)
    )
    if any(segment_base + offset + length > size for offset, length in segments):
        raise CorruptBufferError("it ends within its segments")
    inline = tuple(entry.length(0) for entry in root.tables(3))
    methods = tuple(_read_method(plan, segments, inline) for plan in root.tables(1))
    constants = sum(entry.length(0) for entry in root.tables(2))
    own = root.table(5)
    if own is not None and own.length(1, 8):
        constants += _segment_size(segments, own.scalar(0, "uint32"))
    mutable = [entry for entry in root.tables(6) if entry.length(1, 8)]
    return PteProgram(
        methods=methods,
        training=_training(methods),
        schema_version=root.scalar(0, "uint32"),
        size=size,
        program_size=len(data),
        constant_size=constants,
        mutable_size=sum(_segment_size(segments, e.scalar(0, "uint32")) for e in mutable),
    )


def _segment_size(segments: Sequence[tuple[int, int]], index: int) -> int:
    if index >= len(segments):
        raise CorruptBufferError(f"segment {index} does not exist")
    return segments[index][1]


def _read_method(
    plan: Reader, segments: Sequence[tuple[int, int]], inline: Sequence[int]
) -> PteMethod:
    values = tuple(_read_value(i, entry) for i, entry in enumerate(plan.tables(2)))
    operators = tuple(_operator_name(entry) for entry in plan.tables(6))
    chains = plan.tables(5)
    instructions: tuple[PteInstruction, ...] = ()
    if chains:
        instructions = tuple(
            _read_instruction(i, entry, values, operators)
            for i, entry in enumerate(chains[0].tables(2))
        )
    delegates = plan.tables(7)
    method = PteMethod(
        name=_name(plan, 0),
        values=values,
        inputs=plan.numbers(3, "int32"),
        outputs=plan.numbers(4, "int32"),
        operators=operators,
        instructions=instructions,
        delegates=tuple(_name(entry, 0) for entry in delegates),
        buffer_sizes=plan.numbers(8, "int64"),
        chains=len(chains),
        delegate_sizes=tuple(_delegate_size(entry, segments, inline) for entry in delegates),
    )
    _check_method(method)
    return method


def _delegate_size(
    entry: Reader, segments: Sequence[tuple[int, int]], inline: Sequence[int]
) -> int:
    place = entry.table(1)
    if place is None:
        return 0
    index = place.scalar(1, "uint32")
    if place.scalar(0, "int8") == 1:
        return _segment_size(segments, index)
    return inline[index] if index < len(inline) else 0


def _operator_name(entry: Reader) -> str:
    name, overload = entry.string(0), entry.string(1)
    full = f"{name}.{overload}" if overload else name
    if not _OPERATOR.fullmatch(full):
        raise CorruptBufferError(f"an operator is called {full[:40]!r}")
    return full


def _name(entry: Reader, slot: int) -> str:
    name = entry.string(slot)
    if not name.isprintable():
        raise CorruptBufferError(f"a name with control characters: {name[:40]!r}")
    return name


def _read_value(index: int, entry: Reader) -> PteValue:
    kind = entry.scalar(0, "uint8")
    table = entry.table(1)
    if table is None or kind in (0, 1):
        return PteValue(index, "none")
    if kind == 5:
        return _read_tensor(index, table)
    simple = {2: ("int", "int64"), 3: ("bool", "bool"), 4: ("double", "float64")}
    lists = {
        7: ("int_list", "int64"),
        8: ("double_list", "float64"),
        9: ("bool_list", "bool"),
        10: ("tensor_list", "int32"),
        11: ("optional_tensor_list", "int32"),
    }
    if kind in simple:
        name, number = simple[kind]
        return PteValue(index, name, value=table.scalar(0, number))
    if kind == 6:
        return PteValue(index, "string", value=_name(table, 0))
    if kind in lists:
        name, number = lists[kind]
        return PteValue(index, name, items=table.numbers(0, number))
    raise CorruptBufferError(f"value {index} is of unknown kind {kind}")


def _read_tensor(index: int, table: Reader) -> PteValue:
    scalar_type = table.scalar(0, "int8")
    if scalar_type not in _DTYPES:
        raise CorruptBufferError(f"value {index} has unknown dtype {scalar_type}")
    dtype, item_size = _DTYPES[scalar_type]
    shape = table.numbers(2, "int32")
    dim_order = table.numbers(3, "uint8")
    if len(shape) > _RANK_LIMIT:
        raise CorruptBufferError(f"value {index} has {len(shape)} dimensions")
    if any(size < 0 for size in shape):
        raise CorruptBufferError(f"value {index} has a negative size")
    if sorted(dim_order) != list(range(len(shape))):
        raise CorruptBufferError(f"value {index} has a dim order that is none")
    dynamism = table.scalar(8, "int8")
    if dynamism not in _DYNAMISM:
        raise CorruptBufferError(f"value {index} has unknown shape dynamism {dynamism}")
    place = table.table(6)
    allocation = None
    if place is not None:
        offset = place.scalar(1, "uint32") | place.scalar(2, "uint32") << 32
        allocation = Allocation(place.scalar(0, "uint32"), offset)
    extra = table.table(9)
    data = table.scalar(5, "uint32")
    external = extra is not None and extra.scalar(2, "int8") == 1
    has_data = data > 0 or external
    return PteValue(
        index,
        "tensor",
        dtype=dtype,
        shape=shape,
        dim_order=dim_order,
        allocation=allocation,
        nbytes=math.prod(shape) * item_size,
        constant=has_data and allocation is None,
        initialized=has_data and allocation is not None,
        dynamism=_DYNAMISM[dynamism],
        name="" if extra is None else _name(extra, 1),
        data=data,
        external=external,
    )


def _read_instruction(
    index: int, entry: Reader, values: tuple[PteValue, ...], operators: tuple[str, ...]
) -> PteInstruction:
    number = entry.scalar(0, "uint8")
    table = entry.table(1)
    if table is None or number not in _INSTRUCTIONS:
        raise CorruptBufferError(f"instruction {index} is of unknown kind {number}")
    kind = _INSTRUCTIONS[number]
    if kind in ("kernel", "delegate"):
        args: tuple[int, ...] = table.numbers(1, "int32")
    elif kind == "move":
        args = (table.scalar(0, "int32"), table.scalar(1, "int32"))
    else:
        args = (table.scalar(0, "int32"),)
    if any(not 0 <= arg < len(values) for arg in args):
        raise CorruptBufferError(f"instruction {index} uses a value that does not exist")
    # Whoever follows the data looks at every member of every list.
    entry.spend(sum(len(values[arg].items) for arg in args))
    op = ""
    writes: tuple[int, ...] = ()
    reads = args
    if kind == "move":
        reads, writes = args[:1], args[1:]
    elif kind == "kernel":
        op_index = table.scalar(0, "int32")
        if not 0 <= op_index < len(operators):
            raise CorruptBufferError(f"instruction {index} calls an operator that does not exist")
        op = operators[op_index]
        reads, writes = _reads_and_writes(op, args, values)
    target = table.scalar(1, "int32") if kind == "jump_false" else -1
    delegate = table.scalar(0, "int32") if kind == "delegate" else -1
    return PteInstruction(
        index, kind, op, args, writes, tuple(dict.fromkeys(reads)), target, delegate
    )


def _reads_and_writes(
    op: str, args: tuple[int, ...], values: tuple[PteValue, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not args:
        return (), ()
    if op in _WRITES_FIRST:
        return args, args[:1]
    returned = values[args[-1]]
    outputs = returned.items if returned.kind == "tensor_list" else args[-1:]
    given = args[:-1]
    if op.partition("::")[2].partition(".")[0].endswith("_"):
        return given, tuple(dict.fromkeys((args[0], *outputs)))
    # Out arguments; and a list of them (`split_copy`), which is an argument of its own.
    written = set(outputs)
    outs = {arg for arg in given if arg in written or _is_list_of(values[arg], outputs)}
    return tuple(arg for arg in given if arg not in outs), tuple(dict.fromkeys(outputs))


def _is_list_of(value: PteValue, members: tuple[int, ...]) -> bool:
    return value.kind == "tensor_list" and bool(members) and value.items == members


def _check_method(method: PteMethod) -> None:
    """Every index of a value exists and every planned tensor lies within its buffer."""
    count = len(method.values)
    if any(not 0 <= index < count for index in (*method.inputs, *method.outputs)):
        raise CorruptBufferError(f"method {method.name!r} uses a value that does not exist")
    for value in method.values:
        if value.kind in _LISTS_OF_VALUES:
            low = -1 if value.kind == "optional_tensor_list" else 0
            if any(not low <= item < count for item in value.items):
                raise CorruptBufferError(f"value {value.index} lists a value that does not exist")
            if any(item >= 0 and method.values[item].items for item in value.items):
                raise CorruptBufferError(f"value {value.index} is a list of lists")
        if value.allocation is not None:
            number = value.allocation.memory_id
            end = value.allocation.offset + value.nbytes
            if not 0 < number < len(method.buffer_sizes) or end > method.buffer_sizes[number]:
                raise CorruptBufferError(f"value {value.index} lies outside the planned memory")


def _training(methods: tuple[PteMethod, ...]) -> dict[str, TrainingMetadata]:
    """By method, what the methods that return constants say of it."""
    constants = {
        method.name: [method.values[index] for index in method.outputs]
        for method in methods
        if method.name.startswith("__et_training_")
    }
    found = {}
    for method in methods:
        gradients = _number(constants.get(f"__et_training_gradients_index_{method.name}", []))
        parameters = _number(constants.get(f"__et_training_parameters_index_{method.name}", []))
        names = constants.get(f"__et_training_fqn_{method.name}", [])
        told = all(value.kind == "string" for value in names)
        if gradients is not None and parameters is not None and names and told:
            found[method.name] = TrainingMetadata(
                method.name, gradients, parameters, tuple(value.value for value in names)
            )
    return found


def _number(values: Sequence[PteValue]) -> int | None:
    if len(values) != 1 or values[0].kind != "int":
        return None
    number: int = values[0].value
    return number
