"""What a device is. A module of this folder with a `DEVICE` is one."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Protocol

from graphcheck.errors import UsageError
from graphcheck.runtime.types import Trace, TrainRequest

__all__ = ["Device", "device", "devices"]


class Device(Protocol):
    """A place that trains programs; `name` is what the user calls it, `summary` one line on it."""

    name: str
    summary: str

    def train(self, request: TrainRequest) -> Trace:
        """Run the request. What goes wrong in the runtime is the trace's `failure`.

        Raises DeviceError if the device or its toolchain is missing, UsageError for a request
        that does not fit the program, ModelError for a file that is no program.
        """


def devices() -> dict[str, Device]:
    """All devices by name, sorted."""
    import graphcheck.runtime.devices as package

    found: dict[str, Device] = {}
    for module in pkgutil.iter_modules(package.__path__):
        entry = getattr(
            importlib.import_module(f"{package.__name__}.{module.name}"), "DEVICE", None
        )
        if entry is not None:
            found[entry.name] = entry
    return dict(sorted(found.items()))


def device(name: str) -> Device:
    """The device of that name; raises UsageError if there is none."""
    found = devices()
    if name not in found:
        raise UsageError(f"no such device: {name!r} (there are: {', '.join(found)})")
    return found[name]
