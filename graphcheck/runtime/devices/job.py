"""One run of the native runner, wherever it is: what goes there, what comes back, what is kept."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from graphcheck.counted import counted
from graphcheck.errors import DeviceError
from graphcheck.files import cache_dir, write_atomic
from graphcheck.graph.pte import PteProgram, read_pte
from graphcheck.process import CommandResult
from graphcheck.runtime.answer import explain, read_trace
from graphcheck.runtime.types import RunFailure, Trace, TrainRequest
from graphcheck.runtime.wire import RawTrace, decode_trace, encode_request
from graphcheck.worker import progress

__all__ = ["GRACE_SECONDS", "Job", "Ran", "contents", "files_of", "train_with"]

GRACE_SECONDS = 10.0
"""The runner ends itself at the time limit and says where it was; this long it may take."""
_KEPT_BYTES = 256 << 20
_KEPT_TOTAL = 1 << 30


@dataclass(frozen=True)
class Job:
    """A request to run; `encoded` gives its bytes with its files in `folder` of the device.

    Names on the device are ours (`files_of`): none comes from the program.
    """

    request: TrainRequest
    program: PteProgram

    def encoded(self, folder: str = "") -> bytes:
        """The request as the runner reads it, with files as named by `files_of` in `folder`."""
        request = self.request
        names = {path: PurePosixPath(folder) / name for name, path in files_of(request).items()}
        return self._encode(
            replace(
                request,
                program=Path(names[request.program]),
                weights=Path(names[request.weights]) if request.weights else None,
                kernel_libraries=tuple(Path(names[path]) for path in request.kernel_libraries),
            )
        )

    def here(self) -> bytes:
        """The request as it is read on this machine: with the files where they are."""
        libraries = tuple(path.resolve() for path in self.request.kernel_libraries)
        return self._encode(replace(self.request, kernel_libraries=libraries))

    def _encode(self, request: TrainRequest) -> bytes:
        evaluation = self.program.method(request.evaluation) if request.evaluation else None
        return encode_request(request, self.program.method(request.method), evaluation)


@dataclass(frozen=True)
class Ran:
    """The bytes of a trace as far as they came, and how the runner ended.

    `lost` is what went wrong with the device rather than in the runner.
    """

    data: bytes | mmap.mmap
    result: CommandResult
    lost: str = ""


def files_of(request: TrainRequest) -> dict[str, Path]:
    """The files a request needs, by the names they have on a device."""
    files = {"program.pte": request.program}
    if request.weights:
        files["weights.ptd"] = request.weights
    return files | {f"kernels{i}.so": path for i, path in enumerate(request.kernel_libraries)}


def train_with(run: Callable[[Job], Ran], request: TrainRequest, identity: str) -> Trace:
    """Train with `run`; `identity` says which device and runner that is, for what is kept.

    Raises what `Device.train` raises.
    """
    job = Job(request, read_pte(request.program))
    job.here()
    kept = _kept(job, identity) if request.keep or request.resume else None
    if request.resume and kept is not None and kept.is_file():
        progress("reading the result of an earlier run")
        raw = decode_trace(contents(kept))
        if raw.complete:
            os.utime(kept)
            return replace(_trace(raw, job), resumed=True)
    progress(f"training {counted(request.steps, 'step')} in the runtime")
    ran = run(job)
    raw = decode_trace(ran.data)
    if request.keep and kept is not None and raw.complete and len(ran.data) <= _KEPT_BYTES:
        _keep(kept, bytes(ran.data))
    trace = replace(_trace(raw, job), failure=_failure(raw, ran, job), seconds=ran.result.seconds)
    if request.detect_stale and _broke_in_detector(trace):
        # The patterns can bring a kernel down that trusts its memory; training may still run.
        again = train_with(run, replace(request, detect_stale=False), identity)
        return replace(again, stale_note=trace.failure.message if trace.failure else "")
    return trace


def contents(path: Path) -> bytes | mmap.mmap:
    """A file that may be larger than memory, and may be deleted before it is read."""
    if not path.is_file() or path.stat().st_size == 0:
        return b""
    with path.open("rb") as stream:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def _trace(raw: RawTrace, job: Job) -> Trace:
    return read_trace(raw, job.program.method(job.request.method))


def _failure(raw: RawTrace, ran: Ran, job: Job) -> RunFailure | None:
    if ran.lost and not raw.complete:
        stage = f"step {len(raw.steps)}" if raw.loaded else "start"
        return RunFailure("device", stage, f"{ran.lost}, at {stage}", log=ran.result.output)
    return explain(raw, ran.result, job.program.method(job.request.method), job.request)


def _broke_in_detector(trace: Trace) -> bool:
    return trace.failure is not None and trace.failure.stage == "stale-output detector"


def _kept(job: Job, identity: str) -> Path | None:
    """Where the result of this job on this device is kept: named by all that it depends on.

    None without a cache, which saves no more than time here.
    """
    try:
        folder = cache_dir("traces")
    except DeviceError:
        return None
    digest = hashlib.sha256(identity.encode() + b"\0" + job.encoded())
    for path in files_of(job.request).values():
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return folder / digest.hexdigest()


def _keep(path: Path, data: bytes) -> None:
    """Add a result; the ones that were not used for longest make room for it."""
    try:
        write_atomic(path, data)
        entries = [entry for entry in path.parent.iterdir() if not entry.name.startswith(".")]
        ages = sorted(((e.stat().st_mtime, e.stat().st_size, e) for e in entries), reverse=True)
        total = 0
        for _, size, entry in ages:
            total += size
            if total > _KEPT_TOTAL and entry != path:
                entry.unlink(missing_ok=True)
    except OSError:
        path.unlink(missing_ok=True)  # what cannot be kept is run again
