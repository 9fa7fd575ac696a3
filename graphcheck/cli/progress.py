"""Progress on stderr: a spinner on a terminal, plain lines with -v, nothing when quiet."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from graphcheck.cli.output import say, wants_color

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

__all__ = ["Progress"]


class Progress:
    """`with Progress(verbosity) as progress: work(on_progress=progress)`."""

    def __init__(self, verbosity: int) -> None:
        self._lines = verbosity > 0
        self._spin = verbosity == 0 and sys.stderr.isatty()
        self._bar: RichProgress | None = None

    def __enter__(self) -> Progress:
        return self

    def __call__(self, stage: str) -> None:
        if self._lines:
            say(f"graphcheck: {stage}")
        elif self._spin:
            self._show(stage)

    def _show(self, stage: str) -> None:
        if self._bar is None:
            # Only a terminal pays for importing rich.
            from rich.console import Console
            from rich.progress import Progress as RichProgress
            from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

            self._bar = RichProgress(
                SpinnerColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                console=Console(stderr=True, no_color=not wants_color(sys.stderr)),
                transient=True,
                refresh_per_second=4,
            )
            self._bar.add_task(stage, total=None)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], description=stage)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
