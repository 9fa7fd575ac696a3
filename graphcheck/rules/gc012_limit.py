"""GC012: loading or tracing took more time or memory than allowed."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC012",
    name="limit-reached",
    severity=Severity.ERROR,
    summary="Loading or tracing took more time or memory than allowed.",
    explanation="""\
User code runs in a child process with a time limit (`--timeout`) and a memory limit. It was stopped
while it was doing what the message names: a model file that loops or downloads data when imported,
a model far larger than the machine's memory, or a graph that takes long to trace.

Keep training loops and data loading under `if __name__ == "__main__":`, use small example inputs,
or raise the limit.
""",
    example="""\
graphcheck model.py --timeout 1200
""",
)
