"""Probe the installed runtime, and remember the answers for as long as it stays the same.

Results are kept in the user's cache under the build id of the runtime's libraries and the versions
of executorch and torch (some faults lie in the exporter). Reading them imports neither torch nor
executorch. All probes that are missing run in one child process; when one takes the process down,
that is its answer, and the rest go on in a new one.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import msgspec

from graphcheck.advisory.load import all_advisories
from graphcheck.advisory.probes.interface import digest, probe_names
from graphcheck.advisory.task import RESULT, STARTING
from graphcheck.advisory.types import ProbeResult
from graphcheck.errors import DeviceError, GraphcheckError
from graphcheck.files import cache_dir, write_atomic
from graphcheck.process import WorkerFailure, run_worker

__all__ = ["cached", "probe"]

_TASK = "graphcheck.advisory.task:run_probes"
_SECONDS_EACH = 60.0
_Progress = Callable[[str], None]


@dataclass(frozen=True)
class _Outcome:
    """The answer of one probe as it is cached; `digest` names the source of the probe."""

    outcome: str
    figure: str = ""
    detail: str = ""
    digest: str = ""


@dataclass(frozen=True)
class _Told:
    name: str
    outcome: str
    figure: str
    detail: str


def cached(ids: Iterable[str] | None = None) -> dict[str, ProbeResult]:
    """What is known of this runtime without running anything, by advisory id (None: all).

    Empty when no runtime is installed. Cheap: imports neither torch nor executorch.
    """
    wanted = _probes_of(ids)
    try:
        build_id = _build_id()
    except GraphcheckError:
        return {}
    known = _read(_cache_file(build_id))
    return {
        advisory_id: _result(advisory_id, known[name], build_id)
        for advisory_id, name in wanted.items()
        if name in known and known[name].digest == digest(name)
    }


def probe(
    ids: Iterable[str] | None = None,
    *,
    timeout: float = 600.0,
    progress: _Progress | None = None,
    refresh: bool = False,
    libraries: Sequence[str] = (),
) -> dict[str, ProbeResult]:
    """The answers of the probes of these advisories (None: all) on the installed runtime, by id.

    `libraries` are paths of kernel libraries to load before: the answers are then of them and the
    runtime together. Runs what is not cached (with `refresh`, everything) within `timeout` seconds
    in all, in child processes. Advisories without a probe are left out. Never raises for what a
    probe does: an outcome is `wrong`, `right`, or `not run` with the reason.
    """
    wanted = _probes_of(ids)
    try:
        build_id = "+".join((_build_id(), *map(_digest, libraries)))
    except GraphcheckError as error:
        return {
            advisory_id: ProbeResult(advisory_id, "not run", detail=error.message)
            for advisory_id in wanted
        }
    file = _cache_file(build_id)
    known = {} if refresh else _read(file)
    names = list(dict.fromkeys(wanted.values()))
    missing = [name for name in names if name not in known or known[name].digest != digest(name)]
    if missing:
        found, lasting = _run(missing, time.monotonic() + timeout, timeout, progress, libraries)
        known = {**known, **found}
        _remember(file, {name: found[name] for name in lasting})
    return {
        advisory_id: _result(advisory_id, known[name], build_id)
        for advisory_id, name in wanted.items()
    }


def _probes_of(ids: Iterable[str] | None) -> dict[str, str]:
    wanted = None if ids is None else set(ids)
    return {
        advisory.id: advisory.probe
        for advisory in all_advisories()
        if advisory.probe and (wanted is None or advisory.id in wanted)
    }


def _result(advisory_id: str, outcome: _Outcome, build_id: str) -> ProbeResult:
    return ProbeResult(
        advisory_id, outcome.outcome, outcome.figure, outcome.detail, build_id, _version()
    )


# --- running ----------------------------------------------------------------------------------


def _run(
    names: Sequence[str],
    deadline: float,
    timeout: float,
    progress: _Progress | None,
    libraries: Sequence[str] = (),
) -> tuple[dict[str, _Outcome], tuple[str, ...]]:
    """Outcomes by probe, and the names of those that would come out the same tomorrow."""
    from graphcheck.advisory.probes.interface import all_probes

    unknown = set(names) - set(probe_names())
    if unknown:
        raise GraphcheckError(f"no probe is called {', '.join(sorted(unknown))}.")
    probes = all_probes()
    together = [name for name in names if not probes[name].alone]
    alone = [name for name in names if probes[name].alone]
    found: dict[str, _Outcome] = {}
    passing: set[str] = set()
    tell = _Counted(progress, len(names))
    for batch in [together, *([name] for name in alone)]:
        left = list(batch)
        while left:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                detail = f"the time limit of {timeout:g} s was used up before it"
                found.update({name: _Outcome("not run", detail=detail) for name in left})
                passing.update(left)
                break
            session = _session(left, remaining, tell, libraries)
            found.update(session.found)
            if session.failed and not session.lasting:
                passing.add(session.failed)
            left = [name for name in left if name not in found]
            if session.failed is None and left:
                # It never came to a probe: another try would not, either.
                found.update({name: _Outcome("not run", detail=session.why) for name in left})
                passing.update(left)
                break
    stamped = {name: replace(outcome, digest=digest(name)) for name, outcome in found.items()}
    return stamped, tuple(name for name in stamped if name not in passing)


@dataclass
class _Session:
    """What one child process gave; `failed` is the probe that took it down."""

    found: dict[str, _Outcome]
    failed: str | None = None
    why: str = ""
    lasting: bool = True


class _Counted:
    """Progress in words: `probing the runtime, 3 of 12: addmm_half`."""

    def __init__(self, progress: _Progress | None, total: int) -> None:
        self.progress = progress
        self.total = total
        self.done = 0

    def __call__(self, name: str) -> None:
        self.done += 1
        if self.progress:
            self.progress(f"probing the runtime, {self.done} of {self.total}: {name}")


def _session(
    names: Sequence[str], remaining: float, tell: _Counted, libraries: Sequence[str]
) -> _Session:
    session = _Session({})
    current: list[str] = []

    def on_progress(stage: str) -> None:
        if stage.startswith(STARTING):
            current[:] = [stage.removeprefix(STARTING)]
            tell(current[0])
        elif stage.startswith(RESULT):
            told = msgspec.json.decode(stage.removeprefix(RESULT), type=_Told)
            session.found[told.name] = _Outcome(told.outcome, told.figure, told.detail)
            current.clear()
        elif tell.progress and not tell.done:
            tell.progress(stage)

    request = {"names": list(names), "seconds": _SECONDS_EACH, "libraries": list(libraries)}
    try:
        run_worker(_TASK, request, int, timeout=remaining, on_progress=on_progress)
    except WorkerFailure as failure:
        session.why = _reason(failure)
        session.lasting = failure.kind in ("crash", "exit") and "Timeout (" not in failure.output
    except GraphcheckError as error:
        session.why = error.message
    if current:
        session.failed = current[0]
        session.found[current[0]] = _Outcome("not run", detail=session.why)
    return session


def _reason(failure: WorkerFailure) -> str:
    if "Timeout (" in failure.output:
        return f"its process did not end within {_SECONDS_EACH:g} s"
    if failure.kind == "timeout":
        return f"the time limit ended it ({failure.detail})"
    if failure.kind == "memory":
        return f"its process ran out of memory ({failure.detail})"
    return f"its process {failure.detail}" if failure.kind == "crash" else failure.detail


# --- the cache --------------------------------------------------------------------------------


def _build_id() -> str:
    """The build id of the runtime's libraries. Raises DeviceError when there are none."""
    from graphcheck.runtime.libraries import build_id

    return build_id()


def _digest(library: str) -> str:
    return hashlib.sha256(Path(library).read_bytes()).hexdigest()[:16]


@lru_cache(maxsize=2)
def _version(package: str = "executorch") -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _cache_file(build_id: str) -> Path | None:
    """Where the answers are remembered; None without a cache, which saves no more than time."""
    key = hashlib.sha256(f"{build_id}|{_version()}|{_version('torch')}".encode()).hexdigest()[:24]
    try:
        return cache_dir("probes") / f"{key}.json"
    except DeviceError:
        return None


def _read(file: Path | None) -> Mapping[str, _Outcome]:
    if file is None:
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, _Outcome])
    except (OSError, msgspec.DecodeError):
        # A damaged cache is no cache.
        return {}


def _remember(file: Path | None, found: Mapping[str, _Outcome]) -> None:
    """Add to what other processes may have written meanwhile. A cache that fails is no error."""
    if file is None:
        return
    from filelock import FileLock, Timeout

    try:
        with FileLock(str(file) + ".lock", timeout=10):
            write_atomic(file, msgspec.json.encode({**_read(file), **found}))
    except (OSError, Timeout):
        return
