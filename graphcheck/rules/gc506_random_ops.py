"""GC506: random ops in the graph."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph, OpCall
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Severity

__all__ = ["RANDOM_OPS", "RULE", "is_random"]

RANDOM_OPS = frozenset(
    "aten." + name
    for name in (
        "bernoulli",
        "binomial",
        "cauchy",
        "exponential",
        "geometric",
        "log_normal",
        "multinomial",
        "native_dropout",
        "normal",
        "normal_functional",
        "poisson",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "randperm",
        "rrelu_with_noise",
        "rrelu_with_noise_functional",
        "uniform",
    )
)


def is_random(call: OpCall) -> bool:
    """Whether the call draws random numbers (dropout with p = 0 does not)."""
    if call.op == "aten.native_dropout":
        return call.arguments.get("p") != 0 and call.arguments.get("train") is not False
    return call.op in RANDOM_OPS


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for call in graph.calls:
        if is_random(call):
            yield Finding(
                code=RULE.code,
                severity=Severity.NOTE,
                subject=call.op,
                message=(
                    "draws random numbers: the runtime has its own generator, which cannot be "
                    "seeded, so a run on device does not repeat one in eager"
                ),
                source=call.source,
                backward=call.backward,
                gradients=call.gradients,
                nodes=(call.node,),
            )


RULE = Rule(
    code="GC506",
    name="random-ops",
    severity=Severity.NOTE,
    summary="The graph draws random numbers.",
    explanation=(
        "Dropout, rand and their kin draw from the runtime's own generator. `validate` compares "
        "such ops by what can be compared: the share and the scale of what survives."
    ),
    example="nn.Dropout(0.5)",
    check=check,
)
