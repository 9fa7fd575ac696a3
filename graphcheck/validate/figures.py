"""What a validation costs, and the versions it is of."""

from __future__ import annotations

from importlib import metadata

from graphcheck.runtime.types import Trace

__all__ = ["installed_versions", "overhead"]


def overhead(trace: Trace, runtime_seconds: float, eager_seconds: float) -> dict[str, float]:
    """What validating costs beside the bare steps of the runtime, in seconds."""
    if not trace.steps:
        return {}
    bare = _median([record.seconds for record in trace.steps])
    recording = _median([record.overhead_seconds for record in trace.steps])
    in_steps = sum(record.seconds + record.overhead_seconds for record in trace.steps)
    costs = {
        "bare step s": bare,
        "recorded step s": bare + recording,
        "detector and start s": max(0.0, runtime_seconds - in_steps),
        "eager side s": eager_seconds,
    }
    if bare > 0:
        costs["recorded step, times the bare one"] = (bare + recording) / bare
    return costs


def installed_versions() -> dict[str, str]:
    """Versions of what is compared, by package."""
    found = {}
    for package in ("graphcheck", "torch", "executorch"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
