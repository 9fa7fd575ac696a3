"""A wrong instruction as a program of its own: one `.pte`, its inputs, what it should give.

A folder holds `op.pte` (the instruction, with its inputs as inputs), `tensors.npz` (bytes of the
inputs; expected outputs and the tolerance of each entry) and `reproducer.json`. The outputs of the
program are those of the instruction, then its inputs and the memory beside its outputs, which must
stay as they were.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphcheck.errors import ModelError, UsageError
from graphcheck.files import write_set
from graphcheck.runtime.types import ArrayInput, TrainRequest
from graphcheck.validate.one_op import OneOp, one_op_program
from graphcheck.validate.reproducer_read import FILES, SCHEMA, damaged, read_reproducer
from graphcheck.validate.types import Stage, Verdict, WrongInstruction

if TYPE_CHECKING:
    from graphcheck.validate.shadow import Judged
    from graphcheck.validate.shadow_stage import ShadowStage, Train

__all__ = ["FILES", "reproduce", "write_reproducer"]

_MOST = 20
_FILLS = ("zero", "junk", "nan")
"""What the output memory holds before the kernel runs: a stale output depends on it."""


@dataclass(frozen=True)
class _Expected:
    """One output of the program: `role` is output, input or guard."""

    role: str
    array: Any
    tolerance: Any = 0.0


def write_reproducer(judged: Judged, request: TrainRequest, stage: ShadowStage) -> WrongInstruction:
    """Write a wrong instruction into a folder of its own below `stage.reproducers`, if asked."""
    root = stage.reproducers
    if root is None:
        return judged.wrong
    if len(list(root.glob("*/reproducer.json"))) >= _MOST:
        stage.notes.append(f"only the first {_MOST} wrong instructions have reproducers")
        return judged.wrong
    record = judged.record
    name = re.sub(r"[^a-z0-9_]+", "-", record.op.partition("::")[2].lower())[:60]
    folder = root / f"{record.instruction:05d}-{name}"
    try:
        program = one_op_program(request.program, request.method, record)
        expected = _expected(judged, program)
        _write(folder, judged.wrong, program, expected, request)
    except (OSError, NotImplementedError, ModelError) as error:
        stage.notes.append(f"no reproducer of instruction {record.instruction}: {error}")
        return judged.wrong
    return replace(judged.wrong, reproducer=str(folder))


def _expected(judged: Judged, program: OneOp) -> list[_Expected]:
    """What each output of the program should be."""
    import numpy

    bounds, record = judged.bounds, judged.record
    expected = []
    for index, _ in enumerate(record.outputs):
        right = None if bounds is None else bounds.native[index]
        if right is None or (judged.is_pick(index) and judged.wrong.output != index):
            expected.append(_Expected("unknown", numpy.zeros(0)))
            continue
        tolerance: Any = 0.0
        if right.dtype.is_floating_point and not judged.is_exact:
            tolerance = bounds.full(index).numpy().astype("float32") if bounds else 0.0
        array = right.float() if str(right.dtype) == "torch.bfloat16" else right
        expected.append(_Expected("output", array.numpy(), tolerance))
    for array in program.unchanged:
        expected.append(_Expected("input", array))
    return expected + [_Expected("guard", array) for array in program.guards]


def _write(
    folder: Path,
    wrong: WrongInstruction,
    program: OneOp,
    expected: Sequence[_Expected],
    request: TrainRequest,
) -> None:
    import io

    import numpy

    arrays: dict[str, Any] = {}
    for index, given in enumerate(program.inputs):
        arrays[f"input_{index}"] = numpy.frombuffer(given.data, numpy.uint8)
    for index, entry in enumerate(expected):
        arrays[f"expected_{index}"] = entry.array
        arrays[f"tolerance_{index}"] = numpy.asarray(entry.tolerance)
    packed = io.BytesIO()
    numpy.savez_compressed(packed, **arrays)
    body = {
        "kind": "reproducer",
        "schema_version": SCHEMA,
        "instruction": asdict(replace(wrong, reproducer="")),
        "inputs": [
            {"dtype": i.dtype, "shape": list(i.shape), "dim_order": list(i.dim_order)}
            for i in program.inputs
        ],
        "outputs": [entry.role for entry in expected],
        "kernel_libraries": [str(path.resolve()) for path in request.kernel_libraries],
        "versions": {name: metadata.version(name) for name in ("executorch", "torch")},
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_plain(body), indent=2) + "\n"
    program_name, tensors_name, facts_name = FILES
    write_set(
        {
            folder / program_name: program.program,
            folder / tensors_name: packed.getvalue(),
            folder / facts_name: text,
        }
    )


def _plain(value: Any) -> Any:
    """Numbers that are not finite as strings, which JSON lacks."""
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value


def reproduce(
    folder: Path,
    train: Train,
    kernel_libraries: Sequence[Path] | None = None,
    timeout: float = 60.0,
) -> Verdict:
    """Run a reproducer: verdict `match` when the instruction is right now, `diverged` when wrong.

    `kernel_libraries` stand for those it was found with. Raises ModelError for a folder that is no
    reproducer.
    """
    import numpy

    facts, arrays = read_reproducer(folder)
    inputs = tuple(
        ArrayInput(given.dtype, given.shape, arrays[f"input_{index}"].tobytes(), given.dim_order)
        for index, given in enumerate(facts.inputs)
    )
    recorded = [Path(path) for path in facts.kernel_libraries]
    libraries = tuple(recorded if kernel_libraries is None else kernel_libraries)
    gone = [str(path) for path in libraries if not path.is_file()]
    if gone:
        raise ModelError(
            f"the kernel library {gone[0]} that {folder} was found with is not there",
            "Name it, or another, with --kernel-library.",
        )
    told = f"{facts.instruction.op} (instruction {facts.instruction.instruction})"
    request = TrainRequest(
        program=folder / FILES[0],
        batches=(inputs,),
        steps=1,
        optimizer="none",
        kernel_libraries=libraries,
        timeout=timeout,
    )
    seconds = 0.0
    for fill in _FILLS:
        try:
            trace = train(replace(request, fill=fill))
        except UsageError as error:
            raise damaged(folder, error.message) from None
        seconds += trace.seconds
        if trace.failure is not None or not trace.steps:
            why = trace.failure.message if trace.failure else "the runtime gave no step"
            return _verdict(folder, "not run", why, Stage("step", "fail", why, seconds))
        outputs = trace.steps[0].outputs
        if len(outputs) != len(facts.outputs):
            raise damaged(folder, "its program gives other outputs")
        for index, (role, made) in enumerate(zip(facts.outputs, outputs, strict=True)):
            if role == "unknown":
                continue
            wrong = _off(
                numpy.asarray(made), arrays[f"expected_{index}"], arrays[f"tolerance_{index}"]
            )
            if wrong:
                what = {
                    "output": f"output {index}",
                    "input": f"input {index - facts.outputs.index('input')}"
                    if role == "input"
                    else "",
                    "guard": "the memory beside an output",
                }[role]
                reason = f"wrong: {told}, {what} {wrong} on memory full of {fill}"
                stage = Stage("shadow", "fail", reason, seconds)
                return _verdict(folder, "diverged", reason, stage)
    reason = f"right: {told} gives what is expected, whatever its memory held before"
    return _verdict(folder, "match", reason, Stage("shadow", "pass", reason, seconds))


def _off(made: Any, expected: Any, tolerance: Any) -> str:
    """What is wrong with an output, "" if nothing."""
    import numpy

    if made.shape != expected.shape:
        return f"has shape {list(made.shape)}, not {list(expected.shape)},"
    if made.size == 0:
        return ""
    made, expected = numpy.float64(made), numpy.float64(expected)
    same = (made == expected) | (numpy.isnan(made) & numpy.isnan(expected))
    with numpy.errstate(invalid="ignore"):
        off = numpy.abs(made - expected)
        bad = ~(same | (off <= tolerance))
    if not bad.any():
        return ""
    worst = numpy.argmax(numpy.where(bad, numpy.nan_to_num(off, nan=numpy.inf), -1.0))
    at = numpy.unravel_index(worst, made.shape)
    return (
        f"is {float(made[at]):.6g} at {[int(i) for i in at]}, expected {float(expected[at]):.6g} "
        f"({int(bad.sum())} of {bad.size} entries are off)"
    )


def _verdict(folder: Path, verdict: str, reason: str, stage: Stage) -> Verdict:
    return Verdict(
        target=str(folder), verdict=verdict, reason=reason, stages=(stage,), reproducer=True
    )
