"""What a device is. A module of this folder with a `DEVICE` is one, one with a `FAMILY` many."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol

from graphcheck.errors import UsageError
from graphcheck.runtime.types import Trace, TrainRequest

__all__ = ["Device", "DeviceSettings", "Family", "Seen", "device", "devices", "families"]


class Device(Protocol):
    """A place that trains programs; `name` is what the user calls it, `summary` one line on it."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    def machine(self) -> str:
        """The architecture its kernel libraries are for, as `uname -m` says it.

        Raises DeviceError if the device is not there.
        """

    def missing(self) -> str:
        """What this machine lacks to use it, in a sentence; "" if nothing, without asking it."""

    def train(self, request: TrainRequest) -> Trace:
        """Run the request. What goes wrong in the runtime is the trace's `failure`.

        Raises DeviceError if the device or its toolchain is missing, UsageError for a request
        that does not fit the program, ModelError for a file that is no program.
        """


@dataclass(frozen=True)
class DeviceSettings:
    """What a user may say of a device: a `runner` built for it, and the `cores` to run on.

    `cores` are numbers and ranges (`4-7`, `0,2`), "" for the device's own choice.
    """

    runner: Path | None = None
    cores: str = ""


@dataclass(frozen=True)
class Seen:
    """A device of a family that is there now: how to name it, and `detail` on it or its state."""

    name: str
    detail: str = ""


@dataclass(frozen=True)
class Family:
    """Devices that have an address: `prefix:address`.

    `open` makes a device of an address without touching it; it raises UsageError for one that
    cannot be. `form` is the address as help texts show it, `seen` lists what is there now.
    """

    prefix: str
    form: str
    summary: str
    open: Callable[[str, DeviceSettings], Device]
    seen: Callable[[], tuple[Seen, ...]] = tuple


def _modules() -> Iterator[ModuleType]:
    import graphcheck.runtime.devices as package

    for module in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{module.name}")


def devices() -> dict[str, Device]:
    """All devices that have no address, by name, sorted."""
    found = {
        module.DEVICE.name: module.DEVICE for module in _modules() if hasattr(module, "DEVICE")
    }
    return dict(sorted(found.items()))


def families() -> dict[str, Family]:
    """All families of devices by prefix, sorted."""
    found = {
        module.FAMILY.prefix: module.FAMILY for module in _modules() if hasattr(module, "FAMILY")
    }
    return dict(sorted(found.items()))


def device(name: str, settings: DeviceSettings | None = None) -> Device:
    """The device of that name; raises UsageError if there can be none.

    Settings are of the devices that have an address.
    """
    known = devices()
    if name in known:
        return known[name]
    prefix, colon, address = name.partition(":")
    kinds = families()
    if colon and prefix in kinds:
        return kinds[prefix].open(address, settings or DeviceSettings())
    forms = [*known, *(f"{prefix}:{family.form}" for prefix, family in kinds.items())]
    near = difflib.get_close_matches(name, known, n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    raise UsageError(
        f"no such device: {name!r}",
        f"{guess}There are {', '.join(forms)}; graphcheck device list says what each needs.",
    )
