"""From the runner's records to a `Trace` and, when it failed, to a sentence that says why."""

from __future__ import annotations

import re
import signal

from graphcheck.graph.pte import PteMethod, PteValue
from graphcheck.process import CommandResult, describe_exit
from graphcheck.runtime.errors_table import describe_code
from graphcheck.runtime.stale import judge
from graphcheck.runtime.types import (
    InstructionDump,
    RunFailure,
    Trace,
    TrainRequest,
)
from graphcheck.runtime.wire import DumpRecord, FailureRecord, RawTrace

__all__ = ["explain", "instruction_dump", "missing_operators", "read_trace"]

_KEPT_LOG = 8_000
_OPERATOR_MISSING = 0x14
_INVALID_ARGUMENT = 0x12
_NOT_WRITTEN = 4
"""Exit code of the runner when its trace cannot be written."""
_RUNNING = ("execute", "inspect", "dump")
_STAGE_NAMES = {
    "start": "start",
    "library": "kernel library",
    "program": "load",
    "method": "method",
    "metadata": "training metadata",
    "inspect": "stale-output detector",
    "evaluate": "evaluation",
}
_KINDS = {
    "library": "load",
    "program": "load",
    "method": "load",
    "metadata": "metadata",
    "update": "metadata",
}
_CHECK = re.compile(r"Check failed \((.*)\): (.*)$")
_ERROR_LINE = re.compile(r"^E [0-9:.]+ executorch:\S+\] (.+)$", re.MULTILINE)
_NOT_FOUND = re.compile(r"kernel '([^']+)' not found")
_LOG_NOISE = ("cpuinfo_utils.cpp", "dtype: ", "operator_registry.cpp:278]")


def read_trace(raw: RawTrace, method: PteMethod) -> Trace:
    """The steps, the detector's answer and the dump; `failure` and `seconds` are left open."""
    flagged, unchecked = judge(method, raw.findings) if raw.inspected else ((), ())
    return Trace(
        steps=tuple(raw.steps),
        stale=flagged,
        stale_checked=raw.inspected,
        instructions=len(method.instructions),
        arena_bytes=raw.arena_bytes,
        stale_unchecked=unchecked,
        dump=tuple(instruction_dump(record, method) for record in raw.dump),
        evaluations=tuple(raw.evaluations),
        start_bytes=raw.start_bytes,
        peak_bytes=raw.peak_bytes,
    )


def instruction_dump(record: DumpRecord, method: PteMethod) -> InstructionDump:
    """A dumped instruction with what the plan knows of its arguments filled in."""
    instruction = method.instructions[record.instruction]
    written = set(instruction.writes)
    arguments = tuple(
        _planned(method.values[index], index in written) if given is ... else given
        for index, given in zip(instruction.args, record.arguments, strict=True)
    )
    outputs = dict(record.outputs)
    return InstructionDump(
        record.instruction,
        instruction.op,
        arguments,
        tuple(outputs[value] for value in instruction.writes if value in outputs),
        record.step,
        spoiled=tuple(
            position
            for position, index in enumerate(instruction.args)
            if index not in written
            and any(value in record.changed for value in (index, *method.tensors(index)))
        ),
        beside=-1 in record.changed,
    )


def _planned(value: PteValue, written: bool) -> object:
    """An argument that the file holds: strings and lists of numbers; None for one only written."""
    if written or value.kind in ("none", "tensor", "tensor_list", "optional_tensor_list"):
        return None
    return value.value if value.kind == "string" else list(value.items)


def missing_operators(log: str) -> tuple[str, ...]:
    """Registry names of the operators that the runtime did not find, each once."""
    return tuple(dict.fromkeys(_NOT_FOUND.findall(log)))


def explain(
    raw: RawTrace, result: CommandResult, method: PteMethod, request: TrainRequest
) -> RunFailure | None:
    """Why the run did not come to its end, None if it did."""
    if raw.complete and result.code == 0:
        return None
    log = _readable(result.output)
    record = raw.failure
    if record is None:
        return _unexplained(raw, result, request, log)
    op, instruction = _running(record, method)
    where = f"instruction {instruction} ({op})" if op else _STAGE_NAMES.get(record.stage, "")
    stage = _stage(record)
    if record.signal == signal.SIGALRM:
        text = (
            f"the runtime did not end within {request.timeout:g} s; it was in {_at(where, stage)}"
        )
        return RunFailure("hang", stage, text, None, op, instruction, log)
    if record.signal:
        name = signal.Signals(record.signal).name
        text = f"the runtime crashed with {name} in {_at(where, stage)}"
        return RunFailure("crash", stage, text, None, op, instruction, log)
    return RunFailure(
        kind=_KINDS.get(record.stage, "refused"),
        stage=stage,
        message=_sentence(record, op, instruction, log),
        code=record.code,
        op=op or _single(missing_operators(log)),
        instruction=instruction,
        log=log,
    )


def _unexplained(
    raw: RawTrace, result: CommandResult, request: TrainRequest, log: str
) -> RunFailure:
    """The runner left no record of what was wrong: it was killed, or could not write."""
    stage = f"step {len(raw.steps)}" if raw.loaded else "start"
    at = f", at {stage}" if raw.loaded else ""
    if result.code is None:
        text = f"the runtime did not end within {request.timeout:g} s{at}"
        return RunFailure("hang", stage, text, log=log)
    last = log.strip().splitlines()[-1] if log.strip() else ""
    if result.code == _NOT_WRITTEN:
        text = f"{last.removeprefix('runner: ')}{at}"
        return RunFailure("space", stage, text, log=log)
    told = f": {last}" if last and result.code >= 0 else ""
    text = f"the native runner {describe_exit(result.code)}{at}{told}"
    # A fault of its own would have left a record: these come from elsewhere.
    killed = result.code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT)
    return RunFailure("device" if killed else "crash", stage, text, log=log)


def _running(record: FailureRecord, method: PteMethod) -> tuple[str, int | None]:
    if record.stage not in _RUNNING or not 0 <= record.instruction < len(method.instructions):
        return "", None
    instruction = method.instructions[record.instruction]
    return instruction.op or instruction.kind, instruction.index


def _stage(record: FailureRecord) -> str:
    if record.stage in _STAGE_NAMES:
        return _STAGE_NAMES[record.stage]
    return f"step {record.step}"


def _at(where: str, stage: str) -> str:
    return where if where == stage else f"{where or 'the runner'}, {stage}"


def _single(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else ""


def _sentence(record: FailureRecord, op: str, instruction: int | None, log: str) -> str:
    decoded = describe_code(record.code)
    if record.stage == "method" and record.code == _OPERATOR_MISSING:
        names = missing_operators(log)
        return f"the runtime has no kernel for {', '.join(names) or 'an operator'} (error 0x14)"
    if record.stage in _RUNNING:
        check = _last_check(log)
        what = f"{op} at instruction {instruction}" if op else "an instruction"
        if record.detail:
            return f"{what}: {record.detail}"
        if record.code == _INVALID_ARGUMENT:
            decoded = "refuses its arguments (error 0x12, InvalidArgument)"
            return f"{what} {decoded}" + (f": {check}" if check else "")
        return f"{what} failed: {decoded}" + (f": {check}" if check else "")
    if record.stage == "inputs":
        return f"{record.detail or 'an input'} does not fit the program: {_told(decoded, log)}"
    if record.stage == "metadata":
        return f"the program's training metadata is wrong: {record.detail or decoded}"
    if record.stage == "update":
        return f"the optimizer cannot update {record.detail}"
    if record.stage == "evaluate":
        return f"the evaluation method failed: {record.detail or _told(decoded, log)}"
    if record.stage == "library":
        return f"a kernel library cannot be loaded: {record.detail}"
    what = {"program": "the program", "method": "the method"}.get(record.stage, "the run")
    return f"{what} cannot be loaded: {_told(decoded, log)}"


def _told(decoded: str, log: str) -> str:
    """The number's sentence, and the first error the runtime logged."""
    found = _ERROR_LINE.search(log)
    return f"{decoded}: {found[1]}" if found else decoded


def _readable(output: str) -> str:
    """The runtime's log without what every start writes, at most its last 8000 characters."""
    lines = (line for line in output.splitlines() if not any(word in line for word in _LOG_NOISE))
    return "\n".join(lines)[-_KEPT_LOG:]


def _last_check(log: str) -> str:
    """The first failed check of the last kernel call, in the runtime's own words."""
    found = [match for match in map(_CHECK.search, log.splitlines()) if match]
    for match in found:
        if match[2].strip():
            return match[2].strip().rstrip(":")
    return found[0][1] if found else ""
