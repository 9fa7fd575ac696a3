"""`ssh:user@host[:port]`: a board with Linux, through the system's own ssh and scp.

Keys, jump hosts and the like are those of `~/.ssh/config`; `GRAPHCHECK_SSH_OPTIONS` adds options
for both programs. No password is ever asked for.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from graphcheck.errors import DeviceError, UsageError
from graphcheck.process import CommandResult, describe_exit, run_command
from graphcheck.runtime.devices.board import Board, Streamed
from graphcheck.runtime.devices.bundle import core_mask, given_bundle
from graphcheck.runtime.devices.interface import DeviceSettings, Family
from graphcheck.runtime.devices.job import train_with
from graphcheck.runtime.types import Trace, TrainRequest

__all__ = ["FAMILY", "SshDevice", "open_ssh"]

_ADDRESS = re.compile(
    r"(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]*@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_][A-Za-z0-9_.-]*)"
    r"(:(?P<port>[0-9]{1,5}))?"
)
_CONNECTION = 255
"""The exit code with which ssh reports a fault of its own."""
_CACHE = '"${XDG_CACHE_HOME:-$HOME/.cache}/graphcheck"'


class SshDevice:
    """A board behind ssh."""

    summary = "a Linux board (arm64 or x86-64) through ssh"

    def __init__(self, address: str, host: str, port: str, settings: DeviceSettings) -> None:
        self.name = f"ssh:{address}"
        bundle = given_bundle(settings.runner) if settings.runner else None
        mask = core_mask(settings.cores) if settings.cores else 0
        self.board = Board(_SshLink(self.name, host, port), _CACHE, bundle, mask)

    def machine(self) -> str:
        """See `graphcheck.runtime.devices.interface.Device.machine`."""
        return self.board.machine()

    def missing(self) -> str:
        """See `graphcheck.runtime.devices.interface.Device.missing`."""
        lacking = [name for name in ("ssh", "scp") if shutil.which(name) is None]
        return f"{lacking[0]} is not installed" if lacking else ""

    def train(self, request: TrainRequest) -> Trace:
        """See `graphcheck.runtime.devices.interface.Device.train`."""
        return train_with(self.board.run, request, self.board.identity())


def open_ssh(address: str, settings: DeviceSettings | None = None) -> SshDevice:
    """The board at `user@host[:port]`; raises UsageError for an address that cannot be."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"] or 22) < 65536:
        raise UsageError(
            f"ssh:{address}: this is no address of a board", "For instance ssh:pi@raspberrypi.local"
        )
    host = f"{match['user'] or ''}{match['host'].strip('[]')}"
    return SshDevice(address, host, match["port"] or "", settings or DeviceSettings())


class _SshLink:
    mixed = False

    def __init__(self, name: str, host: str, port: str) -> None:
        self.name = name
        self.host = host
        self.port = port

    def _command(self, program: str, port_option: str) -> list[str]:
        path = shutil.which(program)
        if path is None:
            raise DeviceError(f"{program} is not installed", "apt install openssh-client")
        options = ["BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=5"]
        words = [path, *(word for option in options for word in ("-o", option))]
        words += shlex.split(os.environ.get("GRAPHCHECK_SSH_OPTIONS", ""))
        return words + ([port_option, self.port] if self.port else [])

    def shell(self, script: str, timeout: float) -> CommandResult:
        """See `Link.shell`."""
        words = [*self._command("ssh", "-p"), "--", self.host, f"exec sh -c {shlex.quote(script)}"]
        result = run_command(words, timeout=timeout)
        if result.code == _CONNECTION:
            raise DeviceError(f"{self.name} cannot be reached: {_last(result.output)}")
        return result

    def send(self, files: Mapping[str, Path], folder: str, timeout: float) -> CommandResult:
        """See `Link.send`."""
        # Files get their names there from their names here.
        with tempfile.TemporaryDirectory(prefix="graphcheck-") as here:
            for name, path in files.items():
                (Path(here) / name).symlink_to(path.resolve())
            names = [f"{here}/{name}" for name in files]
            host = f"[{self.host}]" if ":" in self.host else self.host
            command = [*self._command("scp", "-P"), "-q"]
            ends = ["--", *names, f"{host}:{folder}/"]
            result = run_command([*command, *ends], timeout=timeout)
            if result.code and "onnection closed" in result.output:
                # So ends a board without an SFTP server, which may still have scp itself.
                result = run_command([*command, "-O", *ends], timeout=timeout)
            return result

    def stream(self, script: str, output: Path, timeout: float) -> Streamed:
        """See `Link.stream`."""
        words = [*self._command("ssh", "-p"), "--", self.host, f"exec sh -c {shlex.quote(script)}"]
        start = time.monotonic()
        with output.open("wb") as trace, tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=trace, stderr=log, start_new_session=True
            )
            try:
                code: int | None = process.wait(timeout)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                if process.stdin:
                    process.stdin.close()
            log.seek(0)
            said = log.read().decode(errors="replace")
        lost = ""
        if code == _CONNECTION:
            lost = f"the connection to {self.name} was lost: {_last(said)}"
        elif code is not None and code < 0:
            lost = f"the connection to {self.name} was lost: ssh {describe_exit(code)}"
        elif code is None:
            lost = f"{self.name} gave no answer within {timeout:g} s"
        elif code > 128:
            code = 128 - code  # the shell there tells a signal so
        return Streamed(CommandResult(code, said, time.monotonic() - start), lost)


def _last(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else "no reason was given"


FAMILY = Family(
    prefix="ssh",
    form="user@host[:port]",
    summary=SshDevice.summary,
    open=open_ssh,
)
