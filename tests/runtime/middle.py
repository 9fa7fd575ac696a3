"""Something that happens in the middle of a training on a board that is this machine."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

WORKED_SECONDS = 0.2
"""Processor time after which a runner is in the middle: it loads in a hundredth of it."""


def training(runners: Iterable[int]) -> list[int]:
    """Those of these processes that train: one that only says hello is gone before the job is."""
    found = []
    for pid in runners:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"request" in words and _worked(pid) >= WORKED_SECONDS:
                found.append(pid)
    return found


def in_the_middle(
    runners: Callable[[], Iterable[int]], action: Callable[[int], object]
) -> threading.Thread:
    """Call `action(pid of the runner)` once one of `runners()` has trained for a moment."""

    def wait() -> None:
        for _ in range(1200):
            if found := training(runners()):
                action(found[0])
                return
            time.sleep(0.05)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def _worked(pid: int) -> float:
    """Processor time of a process in seconds: the 14th field of its stat, after its name."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")
