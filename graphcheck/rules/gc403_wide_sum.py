"""GC403: float64 and int64 that are computed with float32's digits."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph, OpCall, Source, TensorFact
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Mend, Severity
from graphcheck.rules.wrong import (
    advised_calls,
    advised_finding,
    as_known,
    evidence_of,
    is_silent,
    standing,
)

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    wide = graph.loss is not None and graph.loss.dtype == "float64"
    for call, advisory in advised_calls(graph, context, RULE.code):
        if is_silent(advisory, context):
            continue
        dtype = _dtype(call)
        if call.op != "aten.sum":
            message = advisory.says
        elif dtype == "int64":
            message = "adds up int64 in float32 over one dim: sums above 16777216 are inexact"
        else:
            message = f"adds up {dtype} in float32 over one dim: seven digits are left"
        finding = advised_finding(
            call,
            advisory,
            RULE.code,
            # A model in float32 has no digits to lose here.
            Severity.WARNING if wide and dtype == "float64" else Severity.NOTE,
            message,
            evidence_of(advisory, standing(advisory, context)[1]),
        )
        yield as_known(finding, advisory, context)
    if wide:
        yield _loss()


def _dtype(call: OpCall) -> str:
    value = call.arguments.get("self")
    return value.dtype if isinstance(value, TensorFact) else "float64"


def _loss() -> Finding:
    return Finding(
        code=RULE.code,
        severity=Severity.NOTE,
        subject="float64 loss",
        message="does not mean float64 precision: parts of the program work with float32's digits",
        source=Source(),
        evidence=(
            "measured on executorch 1.5.1: Python numbers in the graph become float32 constants "
            "(x - 0.3 * x is off by 2e-8), LayerNorm and sums over one dim are off by 1e-7; matrix "
            "products, convolutions, mean and exp keep float64",
        ),
        mends=(
            Mend("edit", "float32", "train in float32, the type that devices are made for", False),
        ),
    )


RULE = Rule(
    code="GC403",
    name="wide-sum",
    severity=Severity.NOTE,
    summary="float64 or int64 numbers are added up in float32.",
    explanation=(
        "A sum over exactly one dim is computed in float32 by the runtime's kernel, for float64 "
        "and int64 as well; sums over several dims or all of them are not. int64 sums are inexact "
        "above 2^24, float64 sums keep seven digits.\n"
        "In a model that trains in float64 it is a warning: its gradients have float32's digits. "
        "Otherwise it is a note: most integer sums are counts far below 2^24, and seven digits are "
        "those of a training in float32.\n"
        "Other kernels give int64 or integers of both signs another result than PyTorch, and "
        "numbers written in the model become float32 constants: notes, too.\n"
        "A float64 loss is a note of its own: it suggests a precision that the program does not "
        "have.\n"
        "On a release where an advisory was not measured, and that its range does not hold, it is "
        "a note that says NOT CHECKED.\n"
        "What to do: sum over two dims (one of size 1), or train in float32."
    ),
    example="x.double().sum(1)",
    check=check,
)
