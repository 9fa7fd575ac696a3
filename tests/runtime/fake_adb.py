"""An adb server of our own: it speaks the protocol, and runs what it is told on this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import struct
import subprocess
import threading
from pathlib import Path

ROOT = "/data/local/tmp"


class FakeAdb(socketserver.ThreadingTCPServer):
    """The server with one device, whose /data/local/tmp is `folder`; `space` are bytes it takes."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, folder: Path, serial: str = "emulator-5554") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.serial = serial
        self.space = 1 << 40
        self.commands: list[str] = []
        self.open: set[socket.socket] = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server_address[1]

    def unplug(self) -> None:
        """Cut every connection, as a pulled cable does."""
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def there(self, text: str) -> str:
        return text.replace(ROOT, str(self.folder))


class _Handler(socketserver.BaseRequestHandler):
    server: FakeAdb

    def handle(self) -> None:
        self.server.open.add(self.request)
        try:
            while service := self._service():
                if not self._serve(service):
                    return
        except (ConnectionError, OSError):
            return
        finally:
            self.server.open.discard(self.request)

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.request.recv(size - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data

    def _service(self) -> str:
        try:
            size = int(self._take(4), 16)
        except ConnectionError:
            return ""
        return self._take(size).decode()

    def _okay(self, text: str | None = None) -> None:
        block = b"" if text is None else f"{len(text):04x}{text}".encode()
        self.request.sendall(b"OKAY" + block)

    def _fail(self, text: str) -> None:
        self.request.sendall(b"FAIL" + f"{len(text):04x}{text}".encode())

    def _serve(self, service: str) -> bool:
        """Serve one service; whether another may follow on this connection."""
        if service == "host:version":
            self._okay("0029")
        elif service.startswith("host:devices"):
            self._okay(f"{self.server.serial}\tdevice\n")
        elif service.startswith("host:tport:serial:"):
            if service.rpartition(":")[2] != self.server.serial:
                self._fail(f"device '{service.rpartition(':')[2]}' not found")
                return False
            self._okay()
            self.request.sendall(bytes(8))
            return True
        elif service.startswith("exec:"):
            self._okay()
            self._execute(service.removeprefix("exec:"))
        elif service == "sync:":
            self._okay()
            self._sync()
        else:
            self._fail(f"unknown service {service}")
        return False

    def _execute(self, command: str) -> None:
        self.server.commands.append(command)
        process = subprocess.Popen(
            ["sh", "-c", self.server.there(command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

        def feed() -> None:
            with contextlib.suppress(OSError):
                while data := self.request.recv(4096):
                    process.stdin.write(data)
            with contextlib.suppress(OSError):
                process.stdin.close()

        threading.Thread(target=feed, daemon=True).start()
        with contextlib.suppress(OSError):
            while data := os.read(process.stdout.fileno(), 1 << 16):
                self.request.sendall(data)
        process.stdout.close()
        process.wait()
        with contextlib.suppress(OSError):
            self.request.shutdown(socket.SHUT_RDWR)

    def _sync(self) -> None:
        order, (size,) = self._take(4), struct.unpack("<I", self._take(4))
        assert order == b"SEND", order
        target, _, mode = self._take(size).decode().rpartition(",")
        path = Path(self.server.there(target))
        full = False
        with path.open("wb") as stream:
            while self._take(4) == b"DATA":
                (size,) = struct.unpack("<I", self._take(4))
                data = self._take(size)
                full = full or size > self.server.space
                if not full:
                    self.server.space -= size
                    stream.write(data)
            self._take(4)
        path.chmod(int(mode) & 0o777)
        if full:
            text = b"couldn't write to file: No space left on device"
            self.request.sendall(b"FAIL" + struct.pack("<I", len(text)) + text)
        else:
            self.request.sendall(b"OKAY" + bytes(4))
