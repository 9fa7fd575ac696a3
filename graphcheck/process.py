"""Child processes for everything that can crash, hang, print, exit or eat the memory.

`run_worker` starts `python -m graphcheck.worker TASK`, hands it a request, and reads progress and
the reply from a pipe of its own, so that what a user's model prints cannot be taken for an answer.
`run_command` does the same for any program (the native runner, a compiler).
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import select
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from graphcheck.errors import DeviceError, GraphcheckError, ModelError, UsageError

__all__ = [
    "WHERE_SIGNAL",
    "CommandResult",
    "WorkerFailure",
    "describe_exit",
    "run_command",
    "run_worker",
    "worker_environment",
]

T = TypeVar("T")
_KEPT_OUTPUT = 200_000
_SPINS = "5000"
"""Some ten microseconds: as fast as more on a machine of one's own, and short enough on others."""
WHERE_SIGNAL = signal.SIGUSR1
"""Makes a worker write on its reply pipe where it is."""
_WHERE_SECONDS = 2.0
_REMOVALS = 20
"""Tries to empty a worker's folder: a program that it started may end a moment after it."""
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+) in', re.MULTILINE)
_ERRORS: dict[str, type[GraphcheckError]] = {
    error.__name__: error for error in (GraphcheckError, UsageError, DeviceError, ModelError)
}


class WorkerFailure(Exception):
    """A worker ended without an answer.

    `kind` is crash, exit, timeout or memory; `stage` the last progress it reported; `output` the
    tail of what it printed. `frames` are the files and lines a time-out found it at, innermost
    first, threads one after the other.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        stage: str,
        output: str,
        frames: Sequence[tuple[str, int]] = (),
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.stage = stage
        self.output = output
        self.frames = tuple(frames)


@dataclass(frozen=True)
class CommandResult:
    """The end of a command: `code` is negative for a signal, None after a time-out."""

    code: int | None
    output: str
    seconds: float


def describe_exit(code: int | None) -> str:
    """`exited with code 3`, `was killed by SIGSEGV`, `did not end in time`."""
    if code is None:
        return "did not end in time"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"
    return f"exited with code {code}"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _limit_memory(megabytes: int | None) -> Callable[[], None] | None:
    if not megabytes:
        return None

    def apply() -> None:
        import resource

        # RLIMIT_DATA counts private writable memory; RLIMIT_AS would count mapped libraries, too.
        size = megabytes * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))

    return apply


def run_command(
    arguments: Sequence[str],
    *,
    timeout: float,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    memory_limit: int | None = None,
) -> CommandResult:
    """Run a program to its end or its time limit (seconds); `memory_limit` in MiB.

    Output is stdout and stderr together. Raises FileNotFoundError if there is no such program.
    """
    start = time.monotonic()
    process = subprocess.Popen(
        list(arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=dict(env) if env is not None else None,
        start_new_session=True,
        preexec_fn=_limit_memory(memory_limit),
    )
    try:
        output, _ = process.communicate(timeout=timeout)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        _kill_group(process)
        output, _ = process.communicate()
        code = None
    except BaseException:
        _kill_group(process)
        raise
    text = output.decode(errors="replace")
    return CommandResult(code, text, time.monotonic() - start)


def worker_environment() -> dict[str, str]:
    """The environment of a worker: the user's, with OpenMP told not to wait in a loop for long.

    By default GNU's OpenMP spins for milliseconds at the end of every op; where other processes
    want the cores, that slows eager PyTorch down many times (bench/busy_machine.py). What the user
    set himself stays.
    """
    environment = dict(os.environ)
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", _SPINS)
    return environment


def run_worker(
    task: str,
    request: Any,
    reply_type: type[T],
    *,
    timeout: float,
    memory_limit: int | None = None,
    on_progress: Callable[[str], None] | None = None,
    on_output: Callable[[bytes], None] | None = None,
) -> T:
    """Run `task` (`package.module:function`) on `request` in a fresh Python process.

    `request` is anything msgspec can encode; the function gets the decoded built-ins and its
    result is decoded as `reply_type`. `timeout` is in seconds, `memory_limit` in MiB.
    Temporary files that the process makes are gone when it has ended, however it ends; so no reply
    may name one.

    Raises the GraphcheckError that the task raised, or WorkerFailure when there was no answer.
    """
    with _scratch() as scratch, tempfile.TemporaryFile() as request_file:
        request_file.write(msgspec.json.encode(request))
        request_file.seek(0)
        reply_read, reply_write = os.pipe()
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "graphcheck.worker",
                    task,
                    str(request_file.fileno()),
                    str(reply_write),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**worker_environment(), "TMPDIR": scratch},
                pass_fds=(request_file.fileno(), reply_write),
                start_new_session=True,
                preexec_fn=_limit_memory(memory_limit),
            )
        finally:
            os.close(reply_write)
        try:
            messages, output, timed_out = _pump(
                process, reply_read, time.monotonic() + timeout, on_progress, on_output
            )
        except BaseException:
            _kill_group(process)
            raise
        finally:
            os.close(reply_read)
    return _decode(messages, output, timed_out, process.returncode, reply_type, timeout)


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    """A folder for all temporary files of a worker, which cannot tidy up when it is killed."""
    folder = tempfile.mkdtemp(prefix="graphcheck-")
    try:
        yield folder
    finally:
        for _ in range(_REMOVALS):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.lexists(folder):
                break
            time.sleep(0.05)


@dataclass
class _Messages:
    stage: str = ""
    reply: bytes | None = None
    error: dict[str, Any] | None = None
    frames: list[tuple[str, int]] = field(default_factory=list)


def _pump(
    process: subprocess.Popen[bytes],
    reply_fd: int,
    deadline: float,
    on_progress: Callable[[str], None] | None,
    on_output: Callable[[bytes], None] | None,
) -> tuple[_Messages, str, bool]:
    """Read reply pipe and output until the process ends or the deadline passes."""
    assert process.stdout is not None
    messages = _Messages()
    kept: deque[bytes] = deque()
    kept_size = 0
    buffer = b""
    timed_out = False
    with selectors.DefaultSelector() as selector:
        selector.register(reply_fd, selectors.EVENT_READ)
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.get_map():
            wait = deadline - time.monotonic()
            if wait <= 0:
                timed_out = True
                break
            for key, _ in selector.select(min(wait, 1.0)):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fd == reply_fd:
                    buffer += data
                    *lines, buffer = buffer.split(b"\n")
                    for line in lines:
                        _take(line, messages, on_progress)
                else:
                    if on_output:
                        on_output(data)
                    kept.append(data)
                    kept_size += len(data)
                    while kept_size > _KEPT_OUTPUT and len(kept) > 1:
                        kept_size -= len(kept.popleft())
            answered = messages.reply is not None or messages.error is not None
            # Grandchildren may hold the pipes open after the worker itself is gone.
            if answered or process.poll() is not None:
                deadline = min(deadline, time.monotonic() + 2.0)
                if answered:
                    break
    if timed_out and process.poll() is not None:
        timed_out = False
    if timed_out:
        messages.frames = _where(process, reply_fd, buffer)
    _end(process, answered=messages.reply is not None or messages.error is not None)
    process.stdout.close()
    return messages, b"".join(kept).decode(errors="replace"), timed_out


def _where(process: subprocess.Popen[bytes], reply_fd: int, rest: bytes) -> list[tuple[str, int]]:
    """Files and lines a worker is at: it writes them when it is told to, whatever it is doing."""
    process.send_signal(WHERE_SIGNAL)
    deadline = time.monotonic() + _WHERE_SECONDS
    while (wait := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([reply_fd], [], [], wait)
        data = os.read(reply_fd, 1 << 16) if ready else b""
        if not data:
            break
        rest += data
        # The dump comes in small pieces; a quiet moment is its end.
        deadline = min(deadline, time.monotonic() + 0.2)
    found = _FRAME.findall(rest.decode(errors="replace"))
    return [(file, int(line)) for file, line in found]


def _end(process: subprocess.Popen[bytes], *, answered: bool) -> None:
    if answered:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
    code = process.poll()
    _kill_group(process)
    if code is not None:
        process.returncode = code


def _take(line: bytes, messages: _Messages, on_progress: Callable[[str], None] | None) -> None:
    kind, _, payload = line.partition(b" ")
    if kind == b"progress":
        messages.stage = payload.decode(errors="replace")
        if on_progress:
            on_progress(messages.stage)
    elif kind == b"reply":
        messages.reply = payload
    elif kind == b"error":
        messages.error = msgspec.json.decode(payload)


def _decode(
    messages: _Messages,
    output: str,
    timed_out: bool,
    code: int | None,
    reply_type: type[T],
    timeout: float,
) -> T:
    if messages.reply is not None:
        return msgspec.msgpack.decode(base64.b64decode(messages.reply), type=reply_type)
    if messages.error is not None:
        error = messages.error
        if error["type"] == "MemoryError":
            raise WorkerFailure("memory", error["message"], messages.stage, output)
        kind = _ERRORS.get(error["type"])
        if kind is None:
            raise WorkerFailure("crash", error["message"], messages.stage, output)
        if kind is ModelError:
            raise ModelError(error["message"], error["hint"], error["code"])
        raise kind(error["message"], error["hint"])
    if timed_out:
        detail = f"no end after {timeout:g} s"
        raise WorkerFailure("timeout", detail, messages.stage, output, messages.frames)
    out_of_memory = code == -signal.SIGKILL or any(
        mark in output for mark in ("MemoryError", "bad_alloc", "can't allocate memory")
    )
    exited = code is not None and code >= 0
    end = "memory" if out_of_memory else "exit" if exited else "crash"
    raise WorkerFailure(end, describe_exit(code), messages.stage, output)
