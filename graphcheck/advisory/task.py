"""The child's side of probing: run one probe after the other and tell each result at once."""

from __future__ import annotations

import faulthandler
from typing import Any

import msgspec

from graphcheck.worker import progress

__all__ = ["RESULT", "STARTING", "run_probes"]

STARTING = "probe "
"""Before a probe: its name follows."""
RESULT = "probed "
"""After a probe: its outcome as JSON follows."""


def run_probes(request: dict[str, Any]) -> int:
    """Run `request["names"]`, each within `request["seconds"]`; returns how many were run.

    What a probe raises is its outcome. One that crashes or hangs takes the process with it; the
    parent knows from the last `STARTING` which it was.
    """
    from graphcheck.advisory.probes.interface import all_probes
    from graphcheck.advisory.probes.kit import load_in_runtime

    probes = all_probes()
    progress("loading the runtime for probes")
    _import_runtime()
    _load(request.get("libraries", ()))
    for name in request["names"]:
        progress(STARTING + name)
        # Ends the process even when it hangs in native code.
        faulthandler.dump_traceback_later(request["seconds"], exit=True)
        try:
            judgement = probes[name].judge(probes[name].measure(load_in_runtime))
            outcome = "wrong" if judgement.wrong else "right"
            told = {"name": name, "outcome": outcome, "figure": judgement.figure, "detail": ""}
        except Exception as error:
            detail = f"{type(error).__name__}: {error}".splitlines()[0]
            told = {"name": name, "outcome": "not run", "figure": "", "detail": detail}
        faulthandler.cancel_dump_traceback_later()
        progress(RESULT + msgspec.json.encode(told).decode())
    return len(request["names"])


def _load(libraries: list[str]) -> None:
    """Load kernel libraries, which register in the runtime that the probes run on."""
    if not libraries:
        return
    import ctypes

    from executorch.extension.pybindings import portable_lib  # noqa: F401  the registry's home

    for library in libraries:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)


def _import_runtime() -> None:
    """Import what takes seconds, so that it does not count for the first probe; torch first."""
    import torch  # noqa: F401
    import executorch.exir  # noqa: F401  isort: skip
