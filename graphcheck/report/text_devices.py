"""The devices of a verdict as lines of text: outcome, times, memory, agreement with the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphcheck.report.ansi import wrap
from graphcheck.report.interface import Look
from graphcheck.report.place import shorten

if TYPE_CHECKING:
    from graphcheck.validate.device_result import DeviceResult
    from graphcheck.validate.types import Verdict

__all__ = ["device_sentence", "devices_block"]


def devices_block(verdict: Verdict, look: Look) -> Iterator[str]:
    """One line for each device, and its own reason where it has no answer."""
    if not verdict.devices:
        return
    yield "devices" if len(verdict.devices) > 1 else "device"
    for device in verdict.devices:
        sentence = shorten(device_sentence(device, verdict), look.root)
        yield wrap(f"{device.name}: {sentence}", look.width, "  ")


def device_sentence(device: DeviceResult, verdict: Verdict) -> str:
    """`match; step 1.2 ms (1.1 to 1.3 ms); peak memory 48 MiB, arena 1.2 MiB; ...`"""
    parts = [device.verdict]
    reason = device.reason.removeprefix(device.name).lstrip(": ")
    if device.lost:
        at = f" at {device.failed_at}" if device.failed_at else ""
        parts = [f"NOT RUN{at}: {reason}"]
    elif device.verdict != "match" and len(verdict.devices) > 1:
        parts = [f"{device.verdict}: {reason}"]
    if device.steps:
        earlier = " (of an earlier run)" if device.resumed else ""
        parts.append(
            f"step {_time(device.step_seconds)}"
            f" ({_time(device.step_low)} to {_time(device.step_high)}){earlier}"
        )
    if device.peak_bytes:
        parts.append(
            f"peak memory {_size(device.peak_bytes)}"
            f" ({_size(device.start_bytes)} before the program is loaded)"
        )
    if device.arena_bytes:
        parts.append(f"arena {_size(device.arena_bytes)}")
    if device.gap is not None:
        first = next((d.name for d in verdict.devices if d.steps), "")
        parted = (
            f", parted by 0.1 % at step {device.gap_step}" if device.gap_step is not None else ""
        )
        parts.append(f"losses within {device.gap:.2g} of {first}'s{parted}")
    return "; ".join(parts)


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def _size(size: int) -> str:
    for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << bits:
            return f"{size / (1 << bits):.3g} {unit}"
    return f"{size} B"
