"""What `fix` is asked for, what it decides, and what it hands on."""

from __future__ import annotations

from dataclasses import dataclass

from graphcheck.options import CheckOptions
from graphcheck.report.types import Report

__all__ = ["Decision", "FixOptions", "FixResult", "Look"]


@dataclass(frozen=True)
class FixOptions(CheckOptions):
    """How to fix one target.

    `swaps` are the picks (`batch-norm-as-group-norm=8`): only these are made, exact or not.
    Without picks the exact ones are made, and with `unsafe` the preferred others. `diff` writes
    nothing; `allow_dirty` writes over changes that are not committed.
    """

    swaps: tuple[str, ...] = ()
    unsafe: bool = False
    diff: bool = False
    allow_dirty: bool = False


@dataclass(frozen=True)
class Decision:
    """What to do about one place of one finding.

    `form` is constructor (edit the line that makes the module), function (edit a call in forward),
    statement, call (write a call of make_trainable) or skip. `names` are what the edited line
    calls; `file` and `line` where it is. `reason` says why nothing is done. `rewritten` tells
    whether `graphcheck export` mends the finding without a change of the model.
    """

    code: str
    subject: str
    module: str
    form: str
    swap: str = ""
    change: str = ""
    names: tuple[str, ...] = ()
    file: str = ""
    line: int = 0
    what: str = ""
    reason: str = ""
    rewritten: bool = False
    anchors: tuple[int, ...] = ()
    """Lines of the target file that hold the module, the nearest first."""


@dataclass(frozen=True)
class Look:
    """A model as a child process saw it: its report, what to do, and its loss.

    `loss` and `gradient` (the norm of all gradients) are of one pass in eval mode on the example
    inputs, None when there is no such pass or it is random.
    """

    report: Report
    decisions: tuple[Decision, ...] = ()
    loss: float | None = None
    gradient: float | None = None
    file: str = ""


@dataclass(frozen=True)
class FixResult:
    """The end of a fix.

    `files` were written, or with `diff` asked for would change. `before` is the report that asked
    for it, `left` that of the fixed model (None when nothing was written). `failure` says why
    nothing was written although there was something to write; the files are then as they were.
    """

    target: str
    applied: tuple[Decision, ...] = ()
    skipped: tuple[Decision, ...] = ()
    diff: str = ""
    files: tuple[str, ...] = ()
    before: Report | None = None
    left: Report | None = None
    failure: str = ""
    compared: str = ""
