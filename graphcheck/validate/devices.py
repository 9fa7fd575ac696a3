"""Validation on several devices: each against eager PyTorch, and all against the first."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphcheck.errors import DeviceError
from graphcheck.options import ValidateOptions
from graphcheck.runtime.devices.interface import Device, DeviceSettings, device
from graphcheck.runtime.stream import Take
from graphcheck.runtime.types import RunFailure, Trace, TrainRequest
from graphcheck.validate.device_result import DeviceResult
from graphcheck.validate.kernels_on import libraries_on
from graphcheck.validate.shadow_stage import Stream
from graphcheck.validate.types import Verdict
from graphcheck.worker import progress

__all__ = ["Attached", "combined", "open_device", "validate_on"]

_LOST = ("device", "space", "hang")
"""Kinds of failure that say more of the device than of the program."""
_APART = 1e-3
_WORST = ("diverged", "drift", "not run", "match")
"""Verdicts, the worst first. What a program did on one device is not forgiven by another."""


@dataclass
class Attached:
    """A device during one validation: gives what is missing a failure, keeps the first trace."""

    device: Device
    options: ValidateOptions
    trace: Trace | None = None
    machine: str = ""
    lost: bool = False

    def train(self, request: TrainRequest) -> Trace:
        """As `Device.train`; a device that is not there is a failure of the trace.

        This machine alone has no such excuse: its DeviceError is raised.
        """
        try:
            self.machine = self.machine or self.device.machine()
            libraries = libraries_on(self.machine, request.kernel_libraries)
            trace = self.device.train(
                replace(
                    request,
                    kernel_libraries=libraries,
                    keep=self.options.on != ("host",),
                    resume=self.options.resume,
                )
            )
        except DeviceError as error:
            if self.options.on == ("host",):
                raise
            hint = f" ({error.hint.rstrip('.')})" if error.hint else ""
            failure = RunFailure("device", "start", f"{error.message.rstrip('.')}{hint}")
            trace = Trace(failure=failure)
        if trace.failure is not None and trace.failure.kind in _LOST:
            self.lost = True
        if self.trace is None:
            self.trace = trace
        return trace

    @property
    def stream(self) -> Stream | None:
        """Runs a request and hands over its dump meanwhile; None where the device cannot."""
        found: Stream | None = getattr(self.device, "stream", None)
        if found is None:
            return None

        def run(request: TrainRequest, take: Take) -> Trace:
            self.machine = self.machine or self.device.machine()
            libraries = libraries_on(self.machine, request.kernel_libraries)
            return found(replace(request, kernel_libraries=libraries), take)

        return run

    def result(self, verdict: Verdict, first: Trace | None) -> DeviceResult:
        """The device's line in the report; `first` is the trace of the first device that ran."""
        trace = self.trace or Trace()
        times = sorted(step.seconds for step in trace.steps)
        low, middle, high = (
            statistics.quantiles(times, n=4, method="inclusive")
            if len(times) > 1
            else (times * 3 or (0.0, 0.0, 0.0))
        )
        errors = verdict.worst_gradient_errors.values()
        gap, gap_step = (None, None) if first is trace else _gap(trace, first)
        return DeviceResult(
            name=self.device.name,
            machine=self.machine,
            verdict=verdict.verdict,
            reason=verdict.reason,
            lost=self.lost and verdict.verdict == "not run",
            failed_at=next((s.name for s in verdict.stages if s.outcome == "fail"), ""),
            steps=len(trace.steps),
            losses=tuple(step.loss for step in trace.steps),
            step_seconds=middle,
            step_low=low,
            step_high=high,
            start_bytes=trace.start_bytes,
            peak_bytes=trace.peak_bytes,
            arena_bytes=trace.arena_bytes,
            worst_gradient_error=max(errors, key=_rank, default=0.0),
            gap=gap,
            gap_step=gap_step,
            resumed=trace.resumed,
        )


def open_device(name: str, options: ValidateOptions) -> Device:
    """The device of that name, as the options say. Raises UsageError if there can be none."""
    runner = Path(options.runner) if options.runner else None
    return device(name, DeviceSettings(runner, options.cores))


def validate_on(
    attached: Sequence[Attached], validate: Sequence[Callable[[], Verdict]], *, required: bool
) -> Verdict:
    """The verdict over all devices; `validate[i]` is the validation on device i."""
    verdicts = []
    for one, run in zip(attached, validate, strict=True):
        if len(attached) > 1:
            progress(f"on {one.device.name}")
        verdicts.append(run())
    first = next((one.trace for one in attached if one.trace and one.trace.steps), None)
    results = [one.result(v, first) for one, v in zip(attached, verdicts, strict=True)]
    return combined(verdicts, results, required=required)


def combined(
    verdicts: Sequence[Verdict], results: Sequence[DeviceResult], *, required: bool
) -> Verdict:
    """The worst verdict with all devices beside it; lost devices count only if none is left."""
    counting = [i for i, result in enumerate(results) if not result.lost] or [0]
    chosen = min(counting, key=lambda i: _WORST.index(verdicts[i].verdict))
    verdict = verdicts[chosen]
    lost = [result for result in results if result.lost]
    reason = verdict.reason
    if len(results) > 1 and len(lost) < len(results):
        if verdict.verdict == "match":
            reason = f"{reason}, on {_listed([results[i].name for i in counting])}"
        else:
            reason = f"on {results[chosen].name}: {reason}"
        reason += "".join(f"; NOT RUN on {_told(one)}" for one in lost)
    elif len(results) > 1:
        reason = "; ".join(map(_told, lost))
    notes = [note for v in verdicts for note in v.notes]
    return replace(
        verdict,
        reason=reason,
        devices=tuple(results),
        required=required,
        notes=tuple(dict.fromkeys([*verdict.notes, *notes])),
    )


def _told(one: DeviceResult) -> str:
    """Name and reason, the name once."""
    return f"{one.name}: {one.reason.removeprefix(one.name).lstrip(': ')}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _gap(trace: Trace, first: Trace | None) -> tuple[float | None, int | None]:
    """Largest relative difference of the losses, and the first step at which they part."""
    pairs = zip(trace.steps, first.steps if first else (), strict=False)
    worst: float | None = None
    apart = None
    for step, (one, other) in enumerate(pairs):
        share = _difference(one.loss, other.loss)
        worst = share if worst is None or not share <= worst else worst
        if apart is None and not share <= _APART:
            apart = step
    return worst, apart


def _difference(one: float, other: float) -> float:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    size = max(abs(one), abs(other))
    return abs(one - other) / size if math.isfinite(size) else math.inf


def _rank(error: float) -> float:
    return math.inf if math.isnan(error) else error
