"""This machine: the native runner as a child process."""

from __future__ import annotations

import mmap
import tempfile
from dataclasses import replace
from pathlib import Path

from graphcheck.graph.pte import PteProgram, read_pte
from graphcheck.process import CommandResult, run_command
from graphcheck.runtime.answer import explain, read_trace
from graphcheck.runtime.build import build_runner
from graphcheck.runtime.types import Trace, TrainRequest
from graphcheck.runtime.wire import decode_trace, encode_request
from graphcheck.worker import progress

__all__ = ["DEVICE", "HostDevice", "train"]

_GRACE_SECONDS = 10.0
"""The runner ends itself at the time limit and says where it was; this long it may take."""


class HostDevice:
    """The machine graphcheck runs on."""

    name = "host"
    summary = "this machine, with the kernels of the installed executorch wheel"

    def train(self, request: TrainRequest) -> Trace:
        """See `graphcheck.runtime.devices.interface.Device.train`."""
        program = read_pte(request.program)
        _encoded(request, program)
        runner = build_runner()
        progress(f"training {request.steps} steps in the runtime")
        trace = _run(runner, request, program)
        if request.detect_stale and _broke_in_detector(trace):
            # The patterns can bring a kernel down that trusts its memory; training may still run.
            failure = trace.failure
            again = _run(runner, replace(request, detect_stale=False), program)
            note = failure.message if failure is not None else ""
            return replace(again, stale_note=note)
        return trace


DEVICE = HostDevice()


def train(request: TrainRequest) -> Trace:
    """Train on this machine; see `graphcheck.runtime.devices.interface.Device.train`."""
    return DEVICE.train(request)


def _encoded(request: TrainRequest, program: PteProgram) -> bytes:
    evaluation = program.method(request.evaluation) if request.evaluation else None
    return encode_request(request, program.method(request.method), evaluation)


def _run(runner: Path, request: TrainRequest, program: PteProgram) -> Trace:
    method = program.method(request.method)
    with tempfile.TemporaryDirectory(prefix="graphcheck-") as folder:
        request_file, trace_file = Path(folder) / "request", Path(folder) / "trace"
        request_file.write_bytes(_encoded(request, program))
        result: CommandResult = run_command(
            [str(runner), str(request_file), str(trace_file)],
            timeout=request.timeout + _GRACE_SECONDS,
        )
        raw = decode_trace(_contents(trace_file))
    return replace(
        read_trace(raw, method),
        failure=explain(raw, result, method, request),
        seconds=result.seconds,
    )


def _contents(path: Path) -> bytes | mmap.mmap:
    """A file that may be larger than memory, and is deleted before it is read."""
    if not path.is_file() or path.stat().st_size == 0:
        return b""
    with path.open("rb") as stream:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def _broke_in_detector(trace: Trace) -> bool:
    return trace.failure is not None and trace.failure.stage == "stale-output detector"
