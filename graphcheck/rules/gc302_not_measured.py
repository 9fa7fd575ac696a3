"""GC302: a kernel that may be wrong, with nothing measured to tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from graphcheck.graph.types import JointGraph
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Severity
from graphcheck.rules.wrong import advised_calls, advised_finding, evidence_of, standing

__all__ = ["RULE"]

_WRONG = "GC301"


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for call, advisory in advised_calls(graph, context, _WRONG):
        known, evidence = standing(advisory, context)
        if known == "likely":
            yield advised_finding(
                call,
                advisory,
                RULE.code,
                Severity.WARNING,
                f"was NOT CHECKED: by its version it {advisory.says}",
                evidence_of(advisory, evidence),
            )
        elif known == "unknown":
            yield advised_finding(
                call,
                advisory,
                RULE.code,
                Severity.NOTE,
                f"was NOT CHECKED: in other versions it {advisory.says}",
                evidence_of(advisory, evidence),
            )
    for call, advisory in advised_calls(graph, context, _WRONG, own=True):
        finding = advised_finding(
            call,
            advisory,
            RULE.code,
            Severity.NOTE,
            "was NOT CHECKED: it runs in your own kernel library, which graphcheck does not know",
            (f"{advisory.id}: the stock kernel {advisory.says}",),
        )
        yield replace(finding, mends=())


RULE = Rule(
    code="GC302",
    name="not-measured",
    severity=Severity.WARNING,
    summary="A kernel is listed as wrong for this version, but its probe did not run.",
    explanation=(
        "An advisory names this op, and its probe gave no answer: the runtime is not installed, "
        "the probe crashed or took too long, or the check is made for another runtime than the "
        "installed one. The version range of the advisory is all there is. Inside the range it is "
        "a warning, where nothing is known of the version a note.\n"
        "An op that your own kernel library runs is a note, too: graphcheck knows the stock "
        "kernels alone.\n"
        "What to do: `graphcheck doctor` shows what is missing for probes; `graphcheck validate` "
        "trains the model in the runtime and compares every gradient."
    ),
    example="graphcheck check model.py --target executorch==1.4.1  # probes speak of 1.5.1 only",
    check=check,
)
