"""A board reached through a shell: what is sent once, what is sent for a run, and its end.

The board needs a POSIX shell with `mkdir`, `ln`, `mv`, `rm`, `uname`, `df` and `cat`; no program is
run there but the native runner. Names of files there are digests and names of ours.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from graphcheck.errors import DeviceError
from graphcheck.process import CommandResult
from graphcheck.runtime.build import build_runner
from graphcheck.runtime.devices.job import GRACE_SECONDS, Job, Ran, contents, files_of
from graphcheck.runtime.libraries import RuntimeLibraries
from graphcheck.runtime.platforms import libraries_for
from graphcheck.runtime.wire import REQUEST_MAGIC
from graphcheck.worker import progress

__all__ = ["Board", "Bundle", "Link", "Streamed", "bundle_for"]

_SHORT_SECONDS = 60.0
_MARK = "graphcheck:"
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

    def shell(self, script: str, timeout: float) -> CommandResult:
        """Run a script; output is all that it wrote. An exit code of None: no end in time."""

    def send(self, files: Mapping[str, Path], folder: str, timeout: float) -> CommandResult:
        """Copy files to `folder` there, by the names they get. Exit code 0: all are there."""

    def stream(self, script: str, output: Path, timeout: float) -> Streamed:
        """Run a script with its standard output in a file here. It is ended with the link."""


@dataclass(frozen=True)
class Bundle:
    """The runner and the libraries it needs: name on the board and file here. Sent once."""

    files: Mapping[str, Path]
    version: str

    def digests(self) -> dict[str, str]:
        """Name by name the SHA-256 of the file."""
        return {name: _digest(path) for name, path in self.files.items()}


def bundle_for(machine: str) -> Bundle:
    """Runner and runtime of the installed version. Raises DeviceError if they cannot be had."""
    libraries: RuntimeLibraries = libraries_for(machine)
    runner = build_runner(libraries, machine)
    shared = [path for path in libraries.shared if "quantized" not in path.name]
    return Bundle({"runner": runner, **{p.name: p for p in shared}}, libraries.version)


@dataclass(frozen=True)
class _Facts:
    machine: str
    folder: str
    free: int


class Board:
    """One board during one validation. What it says of itself is asked once."""

    def __init__(
        self, link: Link, root: str, bundle: Bundle | None = None, before: Sequence[str] = ()
    ) -> None:
        """`root` is the cache folder there, as the board's shell expands it; `bundle` a ready one.

        `before` are the words of a command there that starts the runner (to pin it to cores).
        """
        self.link = link
        self.root = root
        self.before = tuple(before)
        self._bundle = bundle
        self._facts: _Facts | None = None
        self._ready = False

    def machine(self) -> str:
        """The architecture. Raises DeviceError if the board is not there or cannot run programs."""
        return self._asked().machine

    def identity(self) -> str:
        """Which board with which runner: for results that are kept."""
        digests = self._bundled().digests()
        return json.dumps([self.link.name, self._asked().machine, digests, self.before])

    def run(self, job: Job) -> Ran:
        """Send what the job needs, run it, and leave nothing but the cache. Raises DeviceError."""
        self._provide()
        folder = f"{self._asked().folder}/jobs/{secrets.token_hex(8)}"
        streamed: Streamed | None = None
        try:
            self._send_job(job, folder)
            progress(f"training {job.request.steps} steps on {self.link.name}")
            with tempfile.TemporaryDirectory(prefix="graphcheck-") as here:
                output = Path(here) / "trace"
                limit = job.request.timeout + GRACE_SECONDS
                streamed = self.link.stream(_run_script(folder, self.before), output, limit)
                return Ran(contents(output), streamed.result, streamed.lost)
        finally:
            # A script that came to its end has removed the folder itself.
            if streamed is None or streamed.lost or streamed.result.code is None:
                self._forget(folder)

    def _asked(self) -> _Facts:
        if self._facts is None:
            result = self._shell(_ask_script(self.root), "asking what it is")
            line = next((line for line in result.output.splitlines() if line.startswith(_MARK)), "")
            parts = line.removeprefix(_MARK).split("|")
            if result.code != 0 or len(parts) != 4:
                raise self._problem(result, "its cache folder cannot be made")
            system, machine, folder, free = parts
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
            self._facts = _Facts(machine, folder, int(free) if free.isdigit() else -1)
        return self._facts

    def _bundled(self) -> Bundle:
        if self._bundle is None:
            self._bundle = bundle_for(self.machine())
        return self._bundle

    def _provide(self) -> None:
        """Runner and libraries are there, whole, and the runner starts."""
        if self._ready:
            return
        bundle = self._bundled()
        self._keep(bundle.files)
        folder = f"{self._asked().folder}/jobs/{secrets.token_hex(8)}"
        lines = [*_link_lines(folder, bundle.digests()), f"cd {_q(folder)} || exit 71"]
        start = "LD_LIBRARY_PATH=$PWD ./runner --hello; code=$?; cd /; rm -rf -- "
        script = "\n".join([*lines, f"{start}{_q(folder)}; exit $code"])
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
        digests = {name: _digest(path) for name, path in files.items()}
        store = f"{self._asked().folder}/files"
        tests = [f"[ -f {_q(f'{store}/{d}')} ] || echo {_MARK}{d}" for d in digests.values()]
        result = self._shell("\n".join([*tests, "true"]), "looking for what is there")
        if result.code != 0:
            raise self._problem(result, "its cache cannot be read")
        missing = {name: d for name, d in digests.items() if f"{_MARK}{d}" in result.output}
        if not missing:
            return digests
        progress(f"sending {len(missing)} files to {self.link.name} (once)")
        self._room(sum(files[name].stat().st_size for name in missing))
        part = secrets.token_hex(4)
        # A file has its name only when it is whole.
        sent = self._sent({f".part-{part}-{d}": files[name] for name, d in missing.items()}, store)
        moves = [
            f"chmod 700 .part-{part}-{d} && mv -f .part-{part}-{d} {d}" for d in missing.values()
        ]
        tidy = f"rm -f .part-{part}-*"
        steps = " && ".join(moves) if sent.code == 0 else "false"
        script = f"cd {_q(store)} || exit 71\n{steps}; code=$?; {tidy}; exit $code"
        result = self._shell(script, "sending files")
        if sent.code != 0 or result.code != 0:
            raise self._problem(sent if sent.code != 0 else result, "files cannot be sent")
        return digests

    def _send_job(self, job: Job, folder: str) -> None:
        named = files_of(job.request)
        kept = self._keep({n: p for n, p in named.items() if n.startswith("kernels")})
        script = "\n".join(_link_lines(folder, self._bundled().digests() | kept))
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
        self._facts = replace(facts, free=facts.free - needed // 1024) if facts.free >= 0 else facts

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
        return DeviceError(f"{self.link.name}: {what}: {lines[-1] if lines else 'no reason given'}")

    def _forget(self, folder: str) -> None:
        """Remove a job's folder, if the board is still there."""
        try:
            self.link.shell(f"rm -rf -- {_q(folder)}", 20.0)
        except DeviceError:
            return  # the next run removes what is older than a day


def _q(text: str) -> str:
    return shlex.quote(text)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _ask_script(root: str) -> str:
    """Makes the cache folder, removes what a broken run left a day ago, and tells the facts."""
    return f"""c={root}
mkdir -p "$c/files" "$c/jobs" || exit 71
cd "$c" && c=$PWD || exit 71
find jobs -mindepth 1 -maxdepth 1 -mmin +1440 -exec rm -rf {{}} + 2>/dev/null
find files -name ".part-*" -mmin +1440 -exec rm -f {{}} + 2>/dev/null
f=$(df -Pk . 2>/dev/null | (read -r _; read -r _ _ _ free _; echo "$free"))
echo "{_MARK}$(uname -s)|$(uname -m)|$c|$f"
"""


def _link_lines(folder: str, digests: Mapping[str, str]) -> list[str]:
    """Lines that make a job's folder with links to files of the cache."""
    links = [
        f"ln -s ../../files/{d} {_q(f'{folder}/{name}')} || exit 71" for name, d in digests.items()
    ]
    return [f"mkdir {_q(folder)} || exit 71", *links]


def _run_script(folder: str, before: Sequence[str]) -> str:
    """Runs the request with the trace on standard output, and removes the folder at its end.

    The standard input stays open for as long as the link does: at its end the runner is killed.
    """
    starts = " ".join(map(_q, before))
    return f"""j={_q(folder)}
p=
finish() {{ [ -n "$p" ] && kill -9 "$p" 2>/dev/null; cd /; rm -rf -- "$j"; }}
trap finish EXIT
trap "exit 129" HUP INT TERM PIPE
cd "$j" || exit 71
exec 3<&0
LD_LIBRARY_PATH="$j" {starts} ./runner request - </dev/null 3<&- &
p=$!
(cat <&3; kill -9 "$p") >/dev/null 2>&1 &
w=$!
exec 3<&-
wait "$p"
code=$?
p=
kill "$w" 2>/dev/null
exit "$code"
"""
