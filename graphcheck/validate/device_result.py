"""What one device of several gave, for the report: its own verdict and its measurements."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DeviceResult"]


@dataclass(frozen=True)
class DeviceResult:
    """One device: `verdict` and `reason` are its own.

    `lost` is true when the device, not the program, is why there is no answer: it is missing, went
    away, ran out of space or time. `failed_at` is the stage of the ladder at which it ended.
    Times are of `execute` alone, per step: median and quartiles, in seconds. `peak_bytes` is all
    that the runner held, `start_bytes` what it held before it loaded the program, `arena_bytes`
    the planned memory of the program. `gap` is the largest relative difference of its losses to
    those of the first device, None for that one; `gap_step` the first step at which they differ by
    more than 0.1 %. `resumed` says that its steps are those of an earlier run.
    """

    name: str
    machine: str
    verdict: str
    reason: str
    lost: bool = False
    failed_at: str = ""
    steps: int = 0
    losses: tuple[float, ...] = ()
    step_seconds: float = 0.0
    step_low: float = 0.0
    step_high: float = 0.0
    start_bytes: int = 0
    peak_bytes: int = 0
    arena_bytes: int = 0
    worst_gradient_error: float = 0.0
    gap: float | None = None
    gap_step: int | None = None
    resumed: bool = False
