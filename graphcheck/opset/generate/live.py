"""An opset from the registry of the installed runtime, read in a child process."""

from __future__ import annotations

from typing import Any

from graphcheck.errors import DeviceError
from graphcheck.opset.types import Opset
from graphcheck.process import WorkerFailure, run_worker

__all__ = ["generate_live", "live_names"]

_TIMEOUT = 180.0


def generate_live(libraries: tuple[str, ...] = ()) -> Opset:
    """What the installed runtime registers, with the user's kernel libraries loaded, too.

    Raises DeviceError when the runtime cannot be loaded.
    """
    from graphcheck.opset.load import installed_version
    from graphcheck.opset.registry import public_version

    version = installed_version()
    try:
        names = run_worker(
            f"{__name__}:live_names", {"libraries": list(libraries)}, list[str], timeout=_TIMEOUT
        )
    except WorkerFailure as failure:
        raise DeviceError(
            f"The kernel registry of the installed executorch {version} could not be read: "
            f"the process {failure.detail}.",
            "Name a shipped opset or a file with --target instead.",
        ) from failure
    return Opset(
        runtime="executorch",
        version=public_version(version),
        library="the installed runtime",
        kernels=frozenset(names),
        source=f"the registry of the installed executorch {version}",
    )


def live_names(request: dict[str, Any]) -> list[str]:
    """Worker task: names in the registry, after loading `request["libraries"]`."""
    import ctypes

    import torch  # noqa: F401  # before any pybinding
    from executorch.extension.pybindings import portable_lib

    for library in request["libraries"]:
        try:
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise DeviceError(f"The kernel library {library} cannot be loaded: {error}.") from error
    return sorted(set(portable_lib._get_operator_names()))
