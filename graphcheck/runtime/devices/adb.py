"""`adb:SERIAL`: an Android device behind an adb server, with a runner that the user built.

Needs adbutils (`pip install 'graphcheck[android]'`). Tried against a server of our own that speaks
the protocol and runs the scripts on this machine; not on an Android device.
"""

from __future__ import annotations

import re
import socket
import stat
import struct
import time
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from graphcheck.errors import DeviceError, UsageError
from graphcheck.files import cache_dir
from graphcheck.process import CommandResult
from graphcheck.runtime.devices.board import Board, Streamed
from graphcheck.runtime.devices.bundle import core_mask, given_bundle
from graphcheck.runtime.devices.interface import DeviceSettings, Family, Seen
from graphcheck.runtime.devices.job import train_with
from graphcheck.runtime.devices.scripts import TRAILER
from graphcheck.runtime.types import Trace, TrainRequest

__all__ = ["FAMILY", "AdbDevice", "default_runner", "open_adb"]

_SERIAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_ROOT = "/data/local/tmp/graphcheck"
_ANSWER_SECONDS = 20.0
_TAIL = 16_384
_CHUNK = 1 << 16
"""The most that the sync service takes at once."""
_INSTALL = "pip install 'graphcheck[android]'"


def default_runner() -> Path:
    """Where `graphcheck device build` puts a runner for Android, and `adb:` looks for one."""
    return cache_dir("runners") / "android-arm64" / "runner"


class AdbDevice:
    """An Android device; the runner is pinned to its fastest cores unless cores are given."""

    summary = "an Android device through adb, with a runner you built"

    def __init__(self, serial: str, settings: DeviceSettings) -> None:
        self.name = f"adb:{serial}"
        self._serial = serial
        self._settings = settings
        self._mask = core_mask(settings.cores) if settings.cores else None
        self._made: Board | None = None

    @property
    def _board(self) -> Board:
        if self._made is None:
            runner = self._settings.runner or default_runner()
            if self._settings.runner is None and not runner.is_file():
                raise DeviceError(
                    "there is no runner for Android",
                    "graphcheck device build --ndk DIR --executorch DIR, or name one: --runner BIN",
                )
            link = _AdbLink(self.name, self._serial)
            self._made = Board(link, _ROOT, given_bundle(runner), self._mask)
        return self._made

    def machine(self) -> str:
        """See `graphcheck.runtime.devices.interface.Device.machine`."""
        return self._board.machine()

    def missing(self) -> str:
        """See `graphcheck.runtime.devices.interface.Device.missing`."""
        return _missing()

    def train(self, request: TrainRequest) -> Trace:
        """See `graphcheck.runtime.devices.interface.Device.train`."""
        return train_with(self._board.run, request, self._board.identity())


def open_adb(serial: str, settings: DeviceSettings | None = None) -> AdbDevice:
    """The device of that serial; raises UsageError for one that cannot be."""
    if not _SERIAL.fullmatch(serial):
        raise UsageError(f"adb:{serial}: this is no serial of a device", "adb devices lists them.")
    return AdbDevice(serial, settings or DeviceSettings())


def _missing() -> str:
    try:
        import adbutils  # noqa: F401
    except ImportError:
        return f"adbutils is not installed: {_INSTALL}"
    return ""


def _adbutils() -> Any:
    try:
        import adbutils
    except ImportError:
        raise DeviceError("adb devices need adbutils", _INSTALL) from None
    return adbutils


def _seen() -> tuple[Seen, ...]:
    """Devices that a running adb server knows. No server is started for it."""
    try:
        adbutils = _adbutils()
        client = adbutils.AdbClient(socket_timeout=2.0)
        with socket.create_connection((client.host, client.port), timeout=0.5):
            pass
        return tuple(Seen(f"adb:{one.serial}", one.state) for one in client.list())
    except Exception:
        return ()  # a server that is not there, or answers nonsense, has no devices


class _AdbLink:
    mixed = True

    def __init__(self, name: str, serial: str) -> None:
        self.name = name
        self.serial = serial

    def shell(self, script: str, timeout: float) -> CommandResult:
        """See `Link.shell`."""
        output = BytesIO()
        wrapped = f"(\n{script}\n) 2>&1\nc=$?; echo; echo {TRAILER}$c"
        start = time.monotonic()
        lost = self._run(wrapped, output, timeout)
        text, code, _ = _parted(output.getvalue())
        if lost and lost != "time":
            raise DeviceError(f"{self.name}: {lost}")
        if code is None and lost != "time":
            raise DeviceError(f"{self.name} went away")
        return CommandResult(code, text.decode(errors="replace"), time.monotonic() - start)

    def send(self, files: Mapping[str, Path], folder: str, timeout: float) -> CommandResult:
        """See `Link.send`."""
        start = time.monotonic()

        def push(device: Any) -> None:
            for name, path in files.items():
                if time.monotonic() - start > timeout:
                    raise TimeoutError
                _push(device, path, f"{folder}/{name}", start + timeout)

        said = self._asked(push, _ANSWER_SECONDS)
        code = 0 if not said else None if said == "time" else 1
        return CommandResult(code, said, time.monotonic() - start)

    def stream(self, script: str, output: Path, timeout: float) -> Streamed:
        """See `Link.stream`."""
        start = time.monotonic()
        with output.open("wb") as trace:
            lost = self._run(script, trace, timeout)
        size = output.stat().st_size
        with output.open("r+b") as trace:
            trace.seek(max(0, size - _TAIL))
            before = trace.tell()
            _, code, said = _parted(trace.read())
            at = _trailer_at(output, before)
            if at is not None:
                trace.truncate(at)
        if code is not None and code > 128:
            code = 128 - code
        told = ""
        if lost == "time":
            told = f"{self.name} gave no answer within {timeout:g} s"
        elif lost:
            told = f"the connection to {self.name} was lost: {lost}"
        elif code is None:
            told = f"the connection to {self.name} was lost"
        log = said.decode(errors="replace")
        return Streamed(CommandResult(code, log, time.monotonic() - start), told)

    def _run(self, command: str, output: BinaryIO, timeout: float) -> str:
        """Run it and write what it says to `output`; what went wrong (`time`: no end in time)."""

        def execute(device: Any) -> None:
            with device.open_transport() as connection:
                # A socket that stays open for reading is what keeps the command alive there.
                connection.send_command(f"exec:{command}")
                connection.check_okay()
                deadline = time.monotonic() + timeout
                while True:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise TimeoutError
                    connection.conn.settimeout(left)
                    data = connection.conn.recv(1 << 16)
                    if not data:
                        return
                    output.write(data)

        return self._asked(execute, _ANSWER_SECONDS)

    def _asked(self, action: Callable[[Any], None], timeout: float) -> str:
        adbutils = _adbutils()
        try:
            client = adbutils.AdbClient(socket_timeout=timeout)
            action(client.device(serial=self.serial))
        except (TimeoutError, adbutils.AdbTimeout):
            return "time"
        except (adbutils.AdbError, OSError, EOFError, RuntimeError, AssertionError) as error:
            return " ".join(str(error).split()) or type(error).__name__
        return ""


def _push(device: Any, path: Path, there: str, deadline: float) -> None:
    """The sync service's SEND. What it says of a failure is raised (adbutils would drop it)."""
    with device.open_transport() as connection, path.open("rb") as stream:
        connection.send_command("sync:")
        connection.check_okay()
        target = f"{there},{stat.S_IFREG | 0o700}".encode()
        connection.conn.sendall(b"SEND" + struct.pack("<I", len(target)) + target)
        while data := stream.read(_CHUNK):
            connection.conn.settimeout(max(0.1, deadline - time.monotonic()))
            connection.conn.sendall(b"DATA" + struct.pack("<I", len(data)) + data)
        connection.conn.sendall(b"DONE" + struct.pack("<I", int(time.time())))
        answer = connection.read_exact(4)
        (size,) = struct.unpack("<I", connection.read_exact(4))
        if answer != b"OKAY":
            raise OSError(connection.read_exact(size).decode(errors="replace"))


def _parted(data: bytes) -> tuple[bytes, int | None, bytes]:
    """What came before the trailer, the exit code in it, and what comes after."""
    before, mark, after = data.rpartition(f"\n{TRAILER}".encode())
    code, _, rest = after.partition(b"\n")
    if not mark or not code.strip().isdigit():
        return data, None, b""
    return before, int(code), rest


def _trailer_at(path: Path, before: int) -> int | None:
    with path.open("rb") as stream:
        stream.seek(before)
        at = stream.read().rfind(f"\n{TRAILER}".encode())
    return before + at if at >= 0 else None


FAMILY = Family(
    prefix="adb",
    form="SERIAL",
    summary=AdbDevice.summary,
    open=open_adb,
    seen=_seen,
)
