"""arm64 Linux on this machine: the arm64 runtime under qemu-user. A stand-in for a phone or board.

Numbers are those of an arm64 processor; times and memory are those of the emulator.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from graphcheck.errors import DeviceError
from graphcheck.graph.pte import read_pte
from graphcheck.runtime.build import build_runner
from graphcheck.runtime.devices.host import first_missing, run_here
from graphcheck.runtime.devices.job import Job, train_with
from graphcheck.runtime.libraries import RuntimeLibraries, find_libraries
from graphcheck.runtime.platforms import libraries_for
from graphcheck.runtime.stream import Take, stream_here
from graphcheck.runtime.toolchain import find_cross_compiler, native_machine
from graphcheck.runtime.types import Trace, TrainRequest

__all__ = ["DEVICE", "QemuDevice", "started"]

_MACHINE = "aarch64"
_EMULATORS = ("qemu-aarch64", "qemu-aarch64-static")
_LIBRARY_FOLDERS = ("lib", "lib64")


class QemuDevice:
    """qemu-user with the arm64 wheel of the installed ExecuTorch version."""

    name = "qemu-aarch64"
    summary = "arm64 under qemu-user, with the arm64 wheel of the same executorch"

    def machine(self) -> str:
        """See `graphcheck.runtime.devices.interface.Device.machine`."""
        return _MACHINE

    def missing(self) -> str:
        """See `graphcheck.runtime.devices.interface.Device.missing`."""
        return first_missing(_tools, find_libraries)

    def train(self, request: TrainRequest) -> Trace:
        """See `graphcheck.runtime.devices.interface.Device.train`."""
        command = self._command()
        return train_with(lambda job: run_here(command, job), request, f"{self.name} {command[-1]}")

    def stream(self, request: TrainRequest, take: Take) -> Trace:
        """Run the request; each dumped instruction goes to `take` while the runner runs."""
        return stream_here(self._command(), Job(request, read_pte(request.program)), take)

    def _command(self) -> tuple[str, ...]:
        prefix, libraries = started()
        return (*prefix, str(build_runner(libraries, _MACHINE, prefix)))


DEVICE = QemuDevice()


def started() -> tuple[tuple[str, ...], RuntimeLibraries]:
    """The words that start an arm64 program here, and the runtime for it.

    Raises DeviceError with what is missing and where to get it.
    """
    emulator, root = _tools()
    libraries = libraries_for(_MACHINE)
    folders = [str(libraries.library_dir), *(f"{root}/{name}" for name in _LIBRARY_FOLDERS)]
    prefix = (emulator, "-L", root, "-E", f"LD_LIBRARY_PATH={':'.join(folders)}")
    return prefix, libraries


def _tools() -> tuple[str, str]:
    """The emulator, and the root of an arm64 system that came with the cross compiler."""
    if native_machine() == _MACHINE:
        raise DeviceError("this machine is arm64 itself: nothing is to be emulated", "--on host")
    emulator = _emulator()
    find_cross_compiler(_MACHINE)
    root = os.environ.get("QEMU_LD_PREFIX") or f"/usr/{_MACHINE}-linux-gnu"
    if not (Path(root) / "lib" / "ld-linux-aarch64.so.1").exists():
        raise DeviceError(
            f"there is no arm64 C library in {root}",
            "apt install libc6-arm64-cross libstdc++6-arm64-cross, or set QEMU_LD_PREFIX to the "
            "root of an arm64 system.",
        )
    return emulator, root


def _emulator() -> str:
    for name in _EMULATORS:
        path = shutil.which(name)
        if path is not None:
            return path
    raise DeviceError("qemu-aarch64 is not installed", "apt install qemu-user, or --on host")
