"""This machine: the native runner as a child process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from graphcheck.errors import DeviceError
from graphcheck.graph.pte import read_pte
from graphcheck.process import run_command
from graphcheck.runtime.build import build_runner
from graphcheck.runtime.devices.job import GRACE_SECONDS, Job, Ran, contents, train_with
from graphcheck.runtime.libraries import find_libraries
from graphcheck.runtime.stream import Take, stream_here
from graphcheck.runtime.toolchain import find_compiler, native_machine
from graphcheck.runtime.types import Trace, TrainRequest

__all__ = ["DEVICE", "HostDevice", "first_missing", "run_here", "train"]


class HostDevice:
    """The machine graphcheck runs on."""

    name = "host"
    summary = "this machine, with the kernels of the installed executorch wheel"

    def machine(self) -> str:
        """See `graphcheck.runtime.devices.interface.Device.machine`."""
        return native_machine()

    def missing(self) -> str:
        """See `graphcheck.runtime.devices.interface.Device.missing`."""
        return first_missing(find_libraries, find_compiler)

    def train(self, request: TrainRequest) -> Trace:
        """See `graphcheck.runtime.devices.interface.Device.train`."""
        command = (str(build_runner()),)
        return train_with(lambda job: run_here(command, job), request, command[0])

    def stream(self, request: TrainRequest, take: Take) -> Trace:
        """Run the request; each dumped instruction goes to `take` while the runner runs."""
        job = Job(request, read_pte(request.program))
        return stream_here((str(build_runner()),), job, take)


DEVICE = HostDevice()


def train(request: TrainRequest) -> Trace:
    """Train on this machine; see `graphcheck.runtime.devices.interface.Device.train`."""
    return DEVICE.train(request)


def first_missing(*needs: Callable[[], object]) -> str:
    """The sentence of the first that raises DeviceError, "" if none does."""
    for need in needs:
        try:
            need()
        except DeviceError as error:
            return error.message
    return ""


def run_here(command: tuple[str, ...], job: Job) -> Ran:
    """Run the runner that `command` starts on this machine; its files are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="graphcheck-") as folder:
        request_file, trace_file = Path(folder) / "request", Path(folder) / "trace"
        request_file.write_bytes(job.here())
        result = run_command(
            [*command, str(request_file), str(trace_file)],
            timeout=job.request.timeout + GRACE_SECONDS,
        )
        return Ran(contents(trace_file), result)
