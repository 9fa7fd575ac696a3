"""A run whose dump is read while it is written: nothing of it on disk, one instruction in memory.

The runner writes its trace into a pipe with a name; it waits there until what it wrote is read.
"""

from __future__ import annotations

import os
import select
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphcheck.process import CommandResult, run_command
from graphcheck.runtime.answer import explain, instruction_dump, read_trace
from graphcheck.runtime.devices.job import GRACE_SECONDS, Job
from graphcheck.runtime.types import InstructionDump, Trace
from graphcheck.runtime.wire import RawTrace, is_trace, take_record

__all__ = ["Take", "stream_here"]

Take = Callable[[InstructionDump], None]

_HEAD = 8
_RECORD_HEAD = 9
_POLL_SECONDS = 0.1
_PIPE_BYTES = 1 << 20


def stream_here(command: Sequence[str], job: Job, take: Take) -> Trace:
    """Run the runner that `command` starts on this machine; each dumped instruction goes to `take`.

    The trace that comes back has everything else. When `take` raises, the runner is ended.
    """
    method = job.program.method(job.request.method)
    raw = RawTrace()
    with tempfile.TemporaryDirectory(prefix="graphcheck-") as folder:
        request, pipe = Path(folder) / "request", Path(folder) / "trace"
        request.write_bytes(job.here())
        os.mkfifo(pipe, 0o600)
        with _Running([*command, str(request), str(pipe)], pipe, job.request.timeout) as running:
            for tag, payload in running.records():
                take_record(raw, tag, payload)
                while raw.dump:
                    take(instruction_dump(raw.dump.pop(), method))
        result = running.result
    trace = read_trace(raw, method)
    return replace(trace, failure=explain(raw, result, method, job.request), seconds=result.seconds)


@dataclass
class _Ended:
    result: CommandResult | None = None
    error: BaseException | None = None


class _Running:
    """The runner in a thread of its own, and our end of the pipe."""

    def __init__(self, command: list[str], pipe: Path, timeout: float) -> None:
        self.reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.ended = _Ended()
        self.buffer = bytearray()

        def run() -> None:
            try:
                self.ended.result = run_command(command, timeout=timeout + GRACE_SECONDS)
            except BaseException as error:
                self.ended.error = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *_: object) -> None:
        # A runner that still writes is ended by that: nobody reads what it writes.
        os.close(self.reader)
        self.thread.join()

    @property
    def result(self) -> CommandResult:
        if self.ended.error is not None:
            raise self.ended.error
        assert self.ended.result is not None
        return self.ended.result

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Tag and payload of each record that came whole."""
        head = self._take(_HEAD)
        if head is None or not is_trace(head):
            return
        while (head := self._take(_RECORD_HEAD)) is not None:
            payload = self._take(int.from_bytes(head[1:], "little"))
            if payload is None:
                return
            yield head[:1], payload

    def _take(self, size: int) -> bytes | None:
        """The next bytes; None when the runner ended before it wrote so many."""
        parts: list[bytes] = []
        left = size
        while left > 0:
            part = self._read(left)
            if part is None:
                return None
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _read(self, size: int) -> bytes | None:
        while True:
            alive = self.thread.is_alive()
            ready, _, _ = select.select([self.reader], [], [], _POLL_SECONDS if alive else 0)
            if ready:
                try:
                    part = os.read(self.reader, min(size, _PIPE_BYTES))
                except BlockingIOError:
                    continue
                if part:
                    return part
                # No writer: it has not opened the pipe yet, or it is gone.
                time.sleep(0.005)
            if not alive:
                return None
