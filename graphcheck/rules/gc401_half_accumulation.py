"""GC401: sums kept in float16 or bfloat16."""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphcheck.advisory.terms import count_terms
from graphcheck.graph.types import JointGraph, OpCall, TensorFact
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

_UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
_STOPS_GROWING = {"float16": 4096, "bfloat16": 512}
"""A sum of terms of one sign and like size ends about here: the next term is below half a unit."""
_FEW = 16
"""Below this many terms the error is not far from that of rounding the result once."""


def expected_error(terms: int, dtype: str) -> float:
    """Relative error of a sum of positive terms kept in `dtype`: rounding, then standing still.

    Measured against it: bf16 2048 terms 0.71 (0.75), 1152 terms 0.53 (0.56), 1024 terms 0.50
    (0.50); f16 2048 terms 0.024 (0.022), 1152 terms 0.012 (0.017).
    """
    return max(_UNIT[dtype] * math.sqrt(terms), 1 - _STOPS_GROWING[dtype] / terms)


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    found = [
        (call, advisory, _dtype(call), *count_terms(advisory.reduction or {}, call))
        for call, advisory in advised_calls(graph, context, RULE.code)
        if not is_silent(advisory, context)
    ]
    # One message for all calls of an op, told by the worst of them, so that they merge.
    worst: dict[tuple[str, str, str], tuple[int, bool]] = {}
    for _, advisory, dtype, terms, exact in found:
        for op in advisory.ops:
            most, all_exact = worst.get((advisory.id, op, dtype), (0, True))
            worst[advisory.id, op, dtype] = (max(most, terms), all_exact and exact)
    for call, advisory, dtype, terms, exact in found:
        if terms < _FEW and exact:
            continue
        most, all_exact = worst[advisory.id, call.op, dtype]
        finding = advised_finding(
            call,
            advisory,
            RULE.code,
            Severity.WARNING,
            _message(dtype, most, all_exact),
            evidence_of(advisory, standing(advisory, context)[1]),
        )
        yield as_known(finding, advisory, context)


def _message(dtype: str, terms: int, exact: bool) -> str:
    grows = "" if exact else ", more as dynamic sizes grow"
    return (
        f"adds up to {terms} terms in {dtype}: expect a relative error up to "
        f"{expected_error(terms, dtype):.1g}{grows}"
    )


def _dtype(call: OpCall) -> str:
    for value in (*call.arguments.values(), *call.outputs):
        if isinstance(value, TensorFact) and value.dtype in _UNIT:
            return value.dtype
    return "bfloat16"


RULE = Rule(
    code="GC401",
    name="half-accumulation",
    severity=Severity.WARNING,
    summary="A kernel adds up float16 or bfloat16 numbers in that type.",
    explanation=(
        "PyTorch adds up half-precision numbers in float32 and rounds once, at the end. Some "
        "kernels of the runtime round after every term. A bfloat16 sum of positive terms then "
        "stops growing at about 512 terms: 2048 of them give a quarter of the sum. Terms of mixed "
        "sign lose less. The expected error is that of terms of one sign, by the number of terms "
        "that the shapes give.\n"
        "sum, mean, mm, bmm and softmax add up in float32 and are right.\n"
        "On a release where an advisory was not measured, and that its range does not hold, it is "
        "a note that says NOT CHECKED.\n"
        "What to do: keep parameters in float32 and compute these ops in float32, or let "
        "`graphcheck export --rewrite OP` do so, which rewrites them only when asked."
    ),
    example="nn.Linear(2048, 10).to(torch.bfloat16)",
    check=check,
)
