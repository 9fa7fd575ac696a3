"""A board reached through a shell: what is sent once, what is sent for a run, and its end.

The board needs a POSIX shell with `mkdir`, `ln`, `mv`, `rm`, `uname`, `df` and `cat`; no program is
run there but the native runner. Names of files there are digests and names of ours.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from graphcheck.counted import counted
from graphcheck.errors import DeviceError
from graphcheck.opset.library import elf_machine
from graphcheck.process import CommandResult, describe_exit
from graphcheck.runtime.devices.bundle import Bundle, bundle_for, file_digest
from graphcheck.runtime.devices.job import GRACE_SECONDS, Job, Ran, contents, files_of
from graphcheck.runtime.devices.scripts import MARK, ask_script, link_lines, quoted, run_script
from graphcheck.runtime.wire import REQUEST_MAGIC
from graphcheck.worker import progress

__all__ = ["Board", "Link", "Streamed"]

_SHORT_SECONDS = 60.0
_BIG_ENDIAN = ("s390x", "ppc64", "ppc", "aarch64_be", "armv7b", "mips", "mips64", "sparc64")
_NO_SPACE = ("no space left", "file too large", "disk quota", "quota exceeded")
_NAMES = {"arm64": "aarch64", "amd64": "x86_64"}


@dataclass(frozen=True)
class Streamed:
    """The end of a command whose output went to a file; `lost` says that the link broke."""

    result: CommandResult
    lost: str = ""


class Link(Protocol):
    """How a board is reached. Every method raises DeviceError if it cannot be."""

    @property
    def name(self) -> str: ...

    @property
    def mixed(self) -> bool:
        """Whether a streamed command has one channel for all that it writes."""

    def shell(self, script: str, timeout: float) -> CommandResult:
        """Run a script; output is all that it wrote. An exit code of None: no end in time."""

    def send(self, files: Mapping[str, Path], folder: str, timeout: float) -> CommandResult:
        """Copy files to `folder` there, by the names they get. Exit code 0: all are there."""

    def stream(self, script: str, output: Path, timeout: float) -> Streamed:
        """Run a script with its standard output in a file here. It is ended with the link."""


@dataclass(frozen=True)
class _Facts:
    machine: str
    folder: str
    free: int
    fastest: int


class Board:
    """One board during one validation. What it says of itself is asked once."""

    def __init__(
        self, link: Link, root: str, bundle: Bundle | None = None, mask: int | None = 0
    ) -> None:
        """`root` is the cache folder there, as the board's shell expands it; `bundle` a ready one.

        `mask` are the cores to run on: 0 for all, None for the fastest that there are.
        """
        self.link = link
        self.root = root
        self.mask = mask
        self._bundle = bundle
        self._facts: _Facts | None = None
        self._ready = False

    def machine(self) -> str:
        """The architecture. Raises DeviceError if the board is not there or cannot run programs."""
        return self._asked().machine

    def identity(self) -> str:
        """Which board with which runner: for results that are kept."""
        digests = self._bundled().digests()
        return json.dumps([self.link.name, self._asked().machine, digests])

    def run(self, job: Job) -> Ran:
        """Send what the job needs, run it, and leave nothing but the cache. Raises DeviceError."""
        self._provide()
        folder = f"{self._asked().folder}/jobs/{secrets.token_hex(8)}"
        streamed: Streamed | None = None
        try:
            self._send_job(job, folder)
            progress(f"training {counted(job.request.steps, 'step')} on {self.link.name}")
            with tempfile.TemporaryDirectory(prefix="graphcheck-") as here:
                output = Path(here) / "trace"
                limit = job.request.timeout + GRACE_SECONDS
                streamed = self.link.stream(
                    run_script(folder, self._pinned(), self.link.mixed), output, limit
                )
                return Ran(contents(output), streamed.result, streamed.lost)
        finally:
            # A script that came to its end has removed the folder itself.
            if streamed is None or streamed.lost or streamed.result.code is None:
                self._forget(folder)

    def _asked(self) -> _Facts:
        if self._facts is None:
            result = self._shell(ask_script(self.root), "asking what it is")
            line = next((line for line in result.output.splitlines() if line.startswith(MARK)), "")
            parts = line.removeprefix(MARK).split("|")
            if result.code != 0 or len(parts) != 5:
                raise self._problem(result, "its cache folder cannot be made")
            system, machine, folder, free, speeds = parts
            machine = _NAMES.get(machine, machine)
            if machine in _BIG_ENDIAN:
                raise DeviceError(
                    f"{self.link.name} is {machine}, which is big-endian: programs of ExecuTorch "
                    "are little-endian"
                )
            if system != "Linux":
                raise DeviceError(
                    f"{self.link.name} runs {system}, not Linux", "A board with Linux is needed."
                )
            space = int(free) if free.isdigit() else -1
            self._facts = _Facts(machine, folder, space, _fastest(speeds))
        return self._facts

    def _bundled(self) -> Bundle:
        machine = self.machine()
        if self._bundle is None:
            self._bundle = bundle_for(machine)
        runner = self._bundle.files["runner"]
        if elf_machine(runner) != machine:
            raise DeviceError(
                f"the runner {runner} is for {elf_machine(runner)}, {self.link.name} is {machine}",
                "Build one for it: graphcheck device build.",
            )
        return self._bundle

    def _pinned(self) -> tuple[str, ...]:
        mask = self._asked().fastest if self.mask is None else self.mask
        return ("taskset", f"{mask:x}") if mask else ()

    def _provide(self) -> None:
        """Runner and libraries are there, whole, and the runner starts."""
        if self._ready:
            return
        bundle = self._bundled()
        self._keep(bundle.files)
        folder = f"{self._asked().folder}/jobs/{secrets.token_hex(8)}"
        lines = [*link_lines(folder, bundle.digests()), f"cd {quoted(folder)} || exit 71"]
        start = "LD_LIBRARY_PATH=$PWD ./runner --hello; code=$?; cd /; rm -rf -- "
        script = "\n".join([*lines, f"{start}{quoted(folder)}; exit $code"])
        result = self._shell(script, "starting the runner")
        said = next((line for line in result.output.splitlines() if line[:1] == "{"), "")
        if result.code != 0 or not said:
            self._forget(folder)
            raise self._problem(result, "the runner does not start there")
        self._check_hello(said, bundle)
        self._ready = True

    def _check_hello(self, said: str, bundle: Bundle) -> None:
        try:
            hello = json.loads(said)
            wire, version, endian = hello["runner"], hello["executorch"], hello["endian"]
        except (ValueError, KeyError, TypeError):
            raise DeviceError(f"what runs on {self.link.name} is no runner of graphcheck") from None
        if endian != "little":
            raise DeviceError(
                f"{self.link.name} is {endian}-endian: programs of ExecuTorch are little-endian"
            )
        if wire != REQUEST_MAGIC.decode():
            raise DeviceError(
                f"the runner on {self.link.name} is of another graphcheck ({wire}, this one "
                f"speaks {REQUEST_MAGIC.decode()})",
                "Build it again: graphcheck device build.",
            )
        if "unknown" not in (version, bundle.version) and version != bundle.version:
            raise DeviceError(
                f"{self.link.name} has ExecuTorch {version}, programs are made here by "
                f"{bundle.version}",
                f"Build the runner from the sources of {bundle.version}.",
            )

    def _keep(self, files: Mapping[str, Path]) -> dict[str, str]:
        """Send the files that are not in the cache there; digests by name."""
        digests = {name: file_digest(path) for name, path in files.items()}
        store = f"{self._asked().folder}/files"
        # What a power cut left short is sent again.
        tests = [
            _whole_test(f"{store}/{d}", files[name].stat().st_size, f"{MARK}{d}")
            for name, d in digests.items()
        ]
        result = self._shell("\n".join([*tests, "true"]), "looking for what is there")
        if result.code != 0:
            raise self._problem(result, "its cache cannot be read")
        missing = {name: d for name, d in digests.items() if f"{MARK}{d}" in result.output}
        if not missing:
            return digests
        progress(f"sending {counted(len(missing), 'file')} to {self.link.name} (once)")
        self._room(sum(files[name].stat().st_size for name in missing))
        part = secrets.token_hex(4)
        # A file has its name only when it is whole.
        sent = self._sent({f".part-{part}-{d}": files[name] for name, d in missing.items()}, store)
        moves = [
            f"chmod 700 .part-{part}-{d} && mv -f .part-{part}-{d} {d}" for d in missing.values()
        ]
        tidy = f"rm -f .part-{part}-*"
        steps = " && ".join(moves) if sent.code == 0 else "false"
        script = f"cd {quoted(store)} || exit 71\n{steps}; code=$?; {tidy}; exit $code"
        result = self._shell(script, "sending files")
        if sent.code != 0 or result.code != 0:
            raise self._problem(sent if sent.code != 0 else result, "files cannot be sent")
        return digests

    def _send_job(self, job: Job, folder: str) -> None:
        named = files_of(job.request)
        kept = self._keep({n: p for n, p in named.items() if n.startswith("kernels")})
        script = "\n".join(link_lines(folder, self._bundled().digests() | kept))
        result = self._shell(script, "making a folder")
        if result.code != 0:
            raise self._problem(result, "a folder for the run cannot be made")
        with tempfile.TemporaryDirectory(prefix="graphcheck-") as here:
            request = Path(here) / "request"
            request.write_bytes(job.encoded(folder))
            files = {n: p for n, p in named.items() if n not in kept} | {"request": request}
            self._room(sum(path.stat().st_size for path in files.values()))
            sent = self._sent(files, folder)
        if sent.code != 0:
            raise self._problem(sent, "the program cannot be sent")

    def _sent(self, files: Mapping[str, Path], folder: str) -> CommandResult:
        size = sum(path.stat().st_size for path in files.values())
        return self.link.send(files, folder, _SHORT_SECONDS + size / 2**20)

    def _room(self, needed: int) -> None:
        facts = self._asked()
        if 0 <= facts.free * 1024 < needed:
            raise DeviceError(
                f"{self.link.name} has no space for what it needs: {facts.free / 1024:.1f} MiB are "
                f"free in {facts.folder}, {needed / 2**20:.1f} MiB are to be sent",
            )

    def _shell(self, script: str, what: str) -> CommandResult:
        result = self.link.shell(f"umask 077\n{script}", _SHORT_SECONDS)
        if result.code is None:
            raise DeviceError(f"{self.link.name} did not answer in {_SHORT_SECONDS:g} s ({what})")
        return result

    def _problem(self, result: CommandResult, what: str) -> DeviceError:
        lines = [line.strip() for line in result.output.splitlines() if line.strip()]
        if result.code is None:
            return DeviceError(f"{self.link.name}: {what}: it did not end in time")
        space = next((line for line in lines if any(w in line.lower() for w in _NO_SPACE)), "")
        if space:
            return DeviceError(f"{self.link.name} has no space left: {what}: {space}")
        if result.code < 0:
            end = describe_exit(result.code)
            return DeviceError(f"{self.link.name}: {what}: the program that connects to it {end}")
        reason = lines[-1] if lines else f"{describe_exit(result.code)}, and gave no reason"
        return DeviceError(f"{self.link.name}: {what}: {reason}")

    def _forget(self, folder: str) -> None:
        """Remove a job's folder, if the board is still there."""
        try:
            self.link.shell(f"rm -rf -- {quoted(folder)}", 20.0)
        except DeviceError:
            return  # the next run removes what is older than a day


def _whole_test(path: str, size: int, missing: str) -> str:
    """A line that prints `missing` unless there is a file of that size."""
    return f'[ "$(wc -c <{quoted(path)})" -eq {size} ] 2>/dev/null || echo {missing}'


def _fastest(speeds: str) -> int:
    """The mask of the cores with the highest clock, 0 if all are the same or nothing is known."""
    known: dict[int, int] = {}
    for word in speeds.split():
        core, _, speed = word.partition(":")
        if core.isdigit() and speed.isdigit():
            known[int(core)] = int(speed)
    best = [core for core, speed in known.items() if speed == max(known.values())]
    return sum(1 << core for core in best) if len(best) < len(known) else 0
