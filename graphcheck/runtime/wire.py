"""The bytes between graphcheck and the native runner; `native/wire.h` is the other side."""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphcheck.errors import UsageError
from graphcheck.graph.pte import PteInstruction, PteMethod
from graphcheck.runtime.request import check_batches, check_request, tensor_inputs
from graphcheck.runtime.types import ArrayInput, Evaluation, StepRecord, TensorData, TrainRequest

__all__ = [
    "REQUEST_MAGIC",
    "DumpRecord",
    "FailureRecord",
    "Finding",
    "FoundOutput",
    "RawTrace",
    "decode_trace",
    "encode_request",
    "is_trace",
    "take_record",
]

REQUEST_MAGIC = b"GCREQ002"
_TRACE_MAGIC = b"GCTRC002"
_FILLS = {"zero": 0, "nan": 1, "junk": 2}
_OPTIMIZERS = {"none": 0, "sgd": 1, "adam": 2, "adamw": 3}
_KINDS = {"kernel": 0, "delegate": 1, "move": 2, "jump_false": 3, "free": 4}
_DTYPES = {
    "uint8": (0, 1),
    "int8": (1, 1),
    "int16": (2, 2),
    "int32": (3, 4),
    "int64": (4, 8),
    "float16": (5, 2),
    "float32": (6, 4),
    "float64": (7, 8),
    "bool": (11, 1),
    "bfloat16": (15, 2),
    "uint16": (27, 2),
    "uint32": (28, 4),
    "uint64": (29, 8),
}
_DTYPE_NAMES = {number: name for name, (number, _) in _DTYPES.items()}
STAGES = (
    "start",
    "library",
    "program",
    "method",
    "metadata",
    "inputs",
    "execute",
    "update",
    "inspect",
    "dump",
    "evaluate",
)


class _Writer:
    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def put(self, form: str, *values: Any) -> None:
        self.parts.append(struct.pack("<" + form, *values))

    def text(self, value: str) -> None:
        payload = value.encode()
        self.put("I", len(payload))
        self.parts.append(payload)

    def numbers(self, form: str, values: Sequence[int]) -> None:
        self.put(f"I{len(values)}{form}", len(values), *values)


def encode_request(
    request: TrainRequest, method: PteMethod, evaluation: PteMethod | None = None
) -> bytes:
    """The runner's request; `evaluation` is the method that the request evaluates, if it does.

    Raises UsageError for a request that does not fit the method.
    """
    inputs = tensor_inputs(method)
    check_request(request, method, inputs, _OPTIMIZERS, _FILLS)
    out = _Writer()
    out.parts.append(REQUEST_MAGIC)
    out.text(str(request.program))
    out.text(request.method)
    out.put("I", len(request.kernel_libraries))
    for library in request.kernel_libraries:
        out.text(str(library))
    out.put("Id", request.steps, request.learning_rate)
    settings = request.settings
    out.put("5d", settings.momentum, settings.weight_decay, *settings.betas, settings.eps)
    out.put("BB", _OPTIMIZERS[request.optimizer], _FILLS[request.fill])
    out.put("BB", request.detect_stale, request.record)
    out.put("i", -1 if request.dump_step is None else request.dump_step)
    out.numbers("i", request.dump_only)
    out.numbers("i", request.dump_steps)
    out.put("d", request.timeout)
    out.text(str(request.weights or ""))
    out.numbers("i", inputs)
    _put_batches(out, request.batches)
    out.text(request.evaluation)
    out.numbers("I", request.evaluate_after)
    places = tensor_inputs(evaluation) if evaluation else ()
    if evaluation:
        check_batches(request.evaluation_batches, evaluation, places)
    out.numbers("i", places)
    _put_batches(out, request.evaluation_batches)
    out.put("I", len(method.values))
    for value in method.values:
        out.put("Q", value.nbytes if value.allocation is not None else 0)
        out.numbers("i", value.items if value.kind.endswith("tensor_list") else ())
    out.put("I", len(method.instructions))
    for instruction in method.instructions:
        _put_instruction(out, instruction)
    return b"".join(out.parts)


def _put_batches(out: _Writer, batches: Sequence[tuple[ArrayInput, ...]]) -> None:
    out.put("I", len(batches))
    for batch in batches:
        out.put("I", len(batch))
        for array in batch:
            _put_array(out, array)


def _put_array(out: _Writer, array: ArrayInput) -> None:
    if array.dtype not in _DTYPES:
        raise UsageError(f"an input of dtype {array.dtype} cannot be given to the runner")
    number, item_size = _DTYPES[array.dtype]
    order = array.dim_order or tuple(range(len(array.shape)))
    if len(array.data) != math.prod(array.shape) * item_size:
        raise UsageError(
            f"{len(array.data)} bytes are no {array.dtype} tensor of shape {list(array.shape)}"
        )
    strides = [0] * len(order)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= array.shape[dim]
    out.put("b", number)
    out.numbers("i", array.shape)
    out.numbers("B", order)
    out.numbers("i", strides)
    out.put("Q", len(array.data))
    out.parts.append(array.data)


def _put_instruction(out: _Writer, instruction: PteInstruction) -> None:
    out.put("B", _KINDS[instruction.kind])
    out.text(instruction.op)
    out.put("i", instruction.target)
    out.numbers("i", instruction.args)
    out.numbers("i", instruction.reads)
    out.numbers("i", instruction.writes)


@dataclass(frozen=True)
class FailureRecord:
    """Why the runner ended: `code` is ExecuTorch's number, `signal` that of a crash or alarm."""

    stage: str
    step: int
    instruction: int
    code: int = 0
    signal: int = 0
    detail: str = ""


@dataclass(frozen=True)
class FoundOutput:
    """An output in a `Finding`: `stale` of itself, `reached` by a difference elsewhere."""

    value: int
    stale: bool
    reached: bool


@dataclass(frozen=True)
class Finding:
    """What the detector measured of one executed instruction."""

    instruction: int
    random: bool
    outputs: tuple[FoundOutput, ...]


@dataclass(frozen=True)
class DumpRecord:
    """A dumped instruction as it comes; `arguments` has `...` where the plan knows the value.

    `changed` are inputs that it wrote into, -1 what lies beside its outputs.
    """

    step: int
    instruction: int
    arguments: tuple[Any, ...]
    outputs: tuple[tuple[int, TensorData], ...]
    changed: tuple[int, ...] = ()


@dataclass
class RawTrace:
    """All records of a trace; `complete` when the runner came to its end."""

    steps: list[StepRecord] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    inspected: bool = False
    dump: list[DumpRecord] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    failure: FailureRecord | None = None
    loaded: bool = False
    arena_bytes: int = 0
    start_bytes: int = 0
    peak_bytes: int = 0
    complete: bool = False


def decode_trace(data: bytes | mmap.mmap) -> RawTrace:
    """Read a trace; a last record that was cut short by a crash is left out.

    Arrays are views of `data`.
    """
    trace = RawTrace()
    if data[:8] != _TRACE_MAGIC:
        return trace
    for tag, cursor in _records(data):
        _take(trace, tag, cursor)
    return trace


def is_trace(head: bytes) -> bool:
    """Whether these eight bytes begin a trace."""
    return head == _TRACE_MAGIC


def take_record(trace: RawTrace, tag: bytes, payload: bytes) -> None:
    """Add one record of a trace that is read as it is written; arrays are views of `payload`."""
    _take(trace, tag, _Cursor(payload, 0))


def _take(trace: RawTrace, tag: bytes, cursor: _Cursor) -> None:
    if tag == b"S":
        trace.steps.append(_step(cursor))
    elif tag == b"O":
        (overhead,) = cursor.get("d")
        trace.steps[-1] = replace(trace.steps[-1], overhead_seconds=overhead)
    elif tag == b"L":
        trace.loaded = True
        (trace.arena_bytes,) = cursor.get("Q")
    elif tag == b"I":
        trace.findings.append(_finding(cursor))
    elif tag == b"J":
        trace.inspected = True
    elif tag == b"D":
        trace.dump.append(_dump(cursor))
    elif tag == b"P":
        after, batch = cursor.get("II")
        trace.evaluations.append(Evaluation(after, batch, _tensors(cursor)))
    elif tag == b"F":
        stage, step, instruction, code = cursor.get("BiiI")
        trace.failure = FailureRecord(
            STAGES[stage], step, instruction, code=code, detail=cursor.text()
        )
    elif tag == b"X":
        number, stage, step, instruction = cursor.get("iiii")
        trace.failure = FailureRecord(STAGES[stage], step, instruction, signal=number)
    elif tag == b"M":
        trace.start_bytes, trace.peak_bytes = cursor.get("QQ")
    elif tag == b"E":
        trace.complete = True


def _records(data: bytes | mmap.mmap) -> Iterator[tuple[bytes, _Cursor]]:
    at = 8
    while at + 9 <= len(data):
        (size,) = struct.unpack_from("<Q", data, at + 1)
        if at + 9 + size > len(data):
            return
        yield data[at : at + 1], _Cursor(data, at + 9)
        at += 9 + size


class _Cursor:
    def __init__(self, data: bytes | mmap.mmap, at: int) -> None:
        self.data = data
        self.at = at

    def get(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def text(self) -> str:
        (size,) = self.get("I")
        self.at += size
        return self.data[self.at - size : self.at].decode(errors="replace")

    def tensor(self) -> TensorData:
        """A tensor; its array is a view of the trace in logical order."""
        import numpy

        number, rank = self.get("bI")
        shape = self.get(f"{rank}i")
        order = self.get(f"{rank}B")
        (size,) = self.get("Q")
        dtype = _DTYPE_NAMES.get(number, "uint8")
        raw = "uint16" if dtype == "bfloat16" else dtype
        start, self.at = self.at, self.at + size
        if size == 0:
            return TensorData(dtype, numpy.zeros(shape, raw), order)
        item_size = numpy.dtype(raw).itemsize
        array = numpy.frombuffer(self.data, raw, size // item_size, start)
        if dtype == "bfloat16":
            array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
        array = array.reshape([shape[dim] for dim in order])
        return TensorData(dtype, array.transpose(numpy.argsort(order)), order)


def _step(cursor: _Cursor) -> StepRecord:
    _, loss, seconds = cursor.get("Idd")
    gradients, parameters = _named(cursor), _named(cursor)
    return StepRecord(loss, gradients, parameters, seconds, _tensors(cursor))


def _tensors(cursor: _Cursor) -> tuple[Any, ...]:
    (count,) = cursor.get("I")
    return tuple(cursor.tensor().array for _ in range(count))


def _named(cursor: _Cursor) -> dict[str, Any]:
    (count,) = cursor.get("I")
    return {cursor.text(): cursor.tensor().array for _ in range(count)}


def _finding(cursor: _Cursor) -> Finding:
    instruction, random, count = cursor.get("iBI")
    outputs = tuple(
        FoundOutput(value, bool(stale), bool(reached))
        for value, stale, reached in (cursor.get("iBB") for _ in range(count))
    )
    return Finding(instruction, bool(random), outputs)


def _dump(cursor: _Cursor) -> DumpRecord:
    step, instruction, count = cursor.get("iiI")
    arguments = tuple(_argument(cursor) for _ in range(count))
    (count,) = cursor.get("I")
    outputs = tuple((cursor.get("i")[0], cursor.tensor()) for _ in range(count))
    (count,) = cursor.get("I")
    return DumpRecord(step, instruction, arguments, outputs, cursor.get(f"{count}i"))


def _argument(cursor: _Cursor) -> Any:
    (tag,) = cursor.get("c")
    if tag == b"t":
        return cursor.tensor()
    if tag in (b"i", b"d"):
        return cursor.get("q" if tag == b"i" else "d")[0]
    if tag == b"b":
        return bool(cursor.get("B")[0])
    if tag == b"l":
        (count,) = cursor.get("I")
        return list(cursor.get(f"{count}q"))
    if tag == b"T":
        (count,) = cursor.get("I")
        return [None if item is ... else item for item in (_argument(cursor) for _ in range(count))]
    return ...
