"""Errors a user can cause, each with the exit code of the one table in `ExitCode`."""

from __future__ import annotations

import enum

__all__ = ["DeviceError", "ExitCode", "GraphcheckError", "ModelError", "UsageError"]


class ExitCode(enum.IntEnum):
    """Exit codes, the same for every verb and every output format."""

    OK = 0
    """Clean, or validated."""
    FINDINGS = 1
    """Findings at or above `--fail-on`, a diff that would change something, or diverged."""
    USAGE = 2
    """Wrong usage or configuration."""
    MODEL = 3
    """The model could not be loaded, exported or traced."""
    DEVICE = 4
    """A required device, compiler or runtime library is missing."""
    INTERNAL = 70
    """A bug in graphcheck."""
    INTERRUPTED = 130
    """Interrupted by the user."""


class GraphcheckError(Exception):
    """One clear sentence (what, where, why) and what to do next.

    `hint` is the next step, printed on its own line; it may be empty.
    """

    exit_code: ExitCode = ExitCode.INTERNAL

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(GraphcheckError):
    """An option, a target or a configuration value that cannot be used."""

    exit_code = ExitCode.USAGE


class ModelError(GraphcheckError):
    """The model could not be loaded, exported or traced.

    `code` is the GC0 rule that explains this kind of failure, "" for a file that is no model.
    """

    exit_code = ExitCode.MODEL

    def __init__(self, message: str, hint: str = "", code: str = "GC001") -> None:
        super().__init__(message, hint)
        self.code = code


class DeviceError(GraphcheckError):
    """A compiler, a runtime library or a device that is needed is not there."""

    exit_code = ExitCode.DEVICE
