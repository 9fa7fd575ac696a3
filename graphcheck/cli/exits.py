"""What becomes of an answer: the one place that maps reports, verdicts and errors to exit codes."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from graphcheck.errors import ExitCode
from graphcheck.report.types import Report
from graphcheck.rules.types import Severity

if TYPE_CHECKING:
    from graphcheck.validate.types import Verdict

__all__ = ["FailOn", "exit_code_of_report", "exit_code_of_verdict"]


class FailOn(enum.StrEnum):
    """The least severity that makes the exit code 1."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"


_MODEL_STAGES = ("load the model", "export", "joint")
"""The stages of validation before the runtime has a say."""
_VERDICTS = {"drift": Severity.WARNING, "diverged": Severity.ERROR, "not run": Severity.ERROR}


def exit_code_of_report(report: Report, fail_on: FailOn, *, exit_zero: bool = False) -> ExitCode:
    """3 when the model could not be traced, 1 for findings at or above `fail_on`, else 0.

    `exit_zero` forgives findings, but not a model that could not be checked.
    """
    if report.failed:
        return ExitCode.MODEL
    if exit_zero or fail_on is FailOn.NEVER:
        return ExitCode.OK
    return ExitCode.FINDINGS if report.at_least(Severity(fail_on.value)) else ExitCode.OK


def exit_code_of_verdict(verdict: Verdict, fail_on: FailOn, *, exit_zero: bool = False) -> ExitCode:
    """0 for a match, 3 when the model could not be loaded or exported, 1 for the rest.

    4 when a device that is required could not be had, or none could.

    A drift counts as a warning, everything else as an error. `exit_zero` does not forgive a model
    that could not be exported.
    """
    broken = next((stage.name for stage in verdict.stages if stage.outcome == "fail"), "")
    if verdict.verdict == "not run" and broken in _MODEL_STAGES:
        return ExitCode.MODEL
    lost = [device.lost for device in verdict.devices]
    if any(lost) and (verdict.required or all(lost)):
        return ExitCode.DEVICE
    if verdict.verdict == "match" or exit_zero or fail_on is FailOn.NEVER:
        return ExitCode.OK
    # A verdict word that is not known here must not pass for validated.
    severity = _VERDICTS.get(verdict.verdict, Severity.ERROR)
    return ExitCode.FINDINGS if severity.rank >= Severity(fail_on.value).rank else ExitCode.OK
