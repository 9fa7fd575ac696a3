"""GC507: symbolic sizes."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph, Source
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Severity

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for symbol in graph.dynamic:
        inputs = [name for name, fact in graph.inputs if symbol in map(str, fact.shape)]
        yield Finding(
            code=RULE.code,
            severity=Severity.NOTE,
            subject="dynamic batch",
            message=(
                f"size {symbol} of {', '.join(inputs)} is symbolic: memory is planned for its "
                "upper bound, and limits that depend on it are not checked"
            ),
            source=Source(module="forward"),
        )


RULE = Rule(
    code="GC507",
    name="dynamic-batch",
    severity=Severity.NOTE,
    summary="A dimension of the inputs is symbolic.",
    explanation=(
        "A program with a dynamic dimension plans its arena for the upper bound of that dimension. "
        "A kernel's limit that depends on the size cannot be decided before the program runs."
    ),
    example="graphcheck model.py --dynamic-batch",
    check=check,
)
