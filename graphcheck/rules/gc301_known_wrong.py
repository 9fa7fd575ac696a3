"""GC301: a kernel that was measured to be wrong on this runtime."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Severity
from graphcheck.rules.wrong import advised_calls, advised_finding, evidence_of, standing

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for call, advisory in advised_calls(graph, context, RULE.code):
        known, evidence = standing(advisory, context)
        if known == "wrong":
            yield advised_finding(
                call,
                advisory,
                RULE.code,
                Severity.ERROR,
                advisory.says,
                evidence_of(advisory, evidence),
            )


RULE = Rule(
    code="GC301",
    name="known-wrong",
    severity=Severity.ERROR,
    summary="A kernel of this runtime gives wrong results, as a probe measured on this machine.",
    explanation=(
        "The op has a kernel, the program loads and trains, and nothing reports an error: the "
        "numbers are wrong. Each such fault is an advisory (`graphcheck advisory list`). What "
        "counts is not the version but a probe: a tiny program that is run once on the installed "
        "runtime and remembered for as long as its libraries stay the same. A runtime whose kernel "
        "is repaired is silent, whatever its version says.\n"
        "It is an error when the result reaches a gradient, the loss or a buffer. A wrong result "
        "that reaches none of them (max pooling as the first layer: nothing before it is trained) "
        "is a note.\n"
        "What to do: `graphcheck advisory show ID` tells the whole story. A rewrite changes the "
        "exported graph and nothing else; a patch gives the runtime a right kernel."
    ),
    example="nn.MaxPool2d(2)  # behind a trainable layer: its gradient adds to stale memory",
    check=check,
)
