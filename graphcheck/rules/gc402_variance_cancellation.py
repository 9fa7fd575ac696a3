"""GC402: a variance by E[x2]-E[x]2 of data whose mean is large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphcheck.advisory.types import Advisory
from graphcheck.graph.types import JointGraph
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Severity
from graphcheck.rules.wrong import (
    advised_calls,
    advised_finding,
    as_known,
    evidence_of,
    is_silent,
    standing,
)

__all__ = ["RULE", "expected_error"]

_EPSILON = 2.0**-23
_SEEN = 2e-4
_SPOILED = 1e-2
_SMALL_GROUP = 2


def expected_error(ratio: float) -> float:
    """Relative error of the variance, with `ratio` = |mean| / sqrt(var + eps) of a group.

    Measured on LayerNorm of 16 to 192 elements and GroupNorm of 392: 0.4 to 5 times this for
    ratios of 3 to 1200; at 1000 and more the variance may come out negative, the result NaN.
    """
    return _EPSILON * ratio * ratio


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for call, advisory in advised_calls(graph, context, RULE.code):
        if is_silent(advisory, context):
            continue
        judged = _judged(graph.example_facts.get(call.node), advisory)
        if judged is None:
            continue
        severity, message, example = judged
        known = standing(advisory, context)[1]
        evidence = (example, *evidence_of(advisory, known)) if example else (known,)
        finding = advised_finding(call, advisory, RULE.code, severity, message, evidence)
        yield as_known(finding, advisory, context)


def _judged(
    facts: Mapping[str, Any] | None, advisory: Advisory
) -> tuple[Severity, str, str] | None:
    """Severity, message and the evidence of the example data; None where these are harmless."""
    if facts is None:
        message = (
            "computes the variance as E[x2]-E[x]2, and whether a large mean spoils it was NOT "
            "CHECKED: there are no example data to measure"
        )
        return Severity.NOTE, message, ""
    error = expected_error(facts["ratio"])
    if not (error < _SEEN):
        severity = Severity.ERROR if not (error < _SPOILED) else Severity.WARNING
        return severity, advisory.says, _told(facts, error)
    if facts["elements"] == _SMALL_GROUP:
        message = (
            "computes the variance of 2 elements as E[x2]-E[x]2: whenever the two are nearly "
            "equal, most digits are lost"
        )
        return Severity.WARNING, message, _told(facts, error)
    return None


def _told(facts: Mapping[str, Any], error: float) -> str:
    return (
        f"example data: a group of {facts['elements']} with mean {facts['mean']:.4g}, "
        f"standard deviation {facts['std']:.2g}: expect a relative error of about {error:.0e} in "
        "the variance"
    )


RULE = Rule(
    code="GC402",
    name="variance-cancellation",
    severity=Severity.WARNING,
    summary="A normalisation loses its variance, since the example data have a large mean.",
    explanation=(
        "Kernels of normalisations compute the variance as E[x2]-E[x]2 in float32. Where the mean "
        "is large against the standard deviation, two nearly equal numbers are subtracted and few "
        "right digits are left: the relative error of the variance is about 1e-7 * (mean/std)^2. "
        "PyTorch takes the mean first and sums squares of differences, which loses nothing.\n"
        "The rule runs the forward graph once on the example inputs, up to the last such op, and "
        "looks at the worst group of each. On data with a mean near zero it is silent. From 1 % "
        "on it is an error. Groups of two elements are always reported: some pair is nearly equal "
        "before long. On a release where an advisory was not measured, and that its range does not "
        "hold, it is a note that says NOT CHECKED.\n"
        "What to do: subtract a constant near the mean before the normalisation, or normalise the "
        "inputs of the model."
    ),
    example="nn.Sequential(nn.GroupNorm(2, 4))  # of pixels 0 to 255 with little contrast",
    check=check,
)
