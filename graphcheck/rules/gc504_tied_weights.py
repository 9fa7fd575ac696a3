"""GC504: one parameter under several names."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph, Source
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Severity

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for parameter in graph.parameters:
        if not parameter.aliases:
            continue
        names = (parameter.name, *parameter.aliases)
        yield Finding(
            code=RULE.code,
            severity=Severity.NOTE,
            subject="tied weights",
            message=(
                f"{' and '.join(names)} are one tensor: the program knows it as {parameter.name}"
            ),
            source=Source(module=parameter.module),
            module=parameter.module,
            modules=(parameter.module,),
            gradients=(parameter.name,),
        )


RULE = Rule(
    code="GC504",
    name="tied-weights",
    severity=Severity.NOTE,
    summary="One parameter is used under several names.",
    explanation=(
        "Non-strict torch.export gives every name an input of its own; then only one of them gets "
        "a gradient and the joint export fails. graphcheck exports such a model strictly, which "
        "keeps one name, or, where strict export fails or drops an assignment to a buffer, makes "
        "them one input again. Training is right; an app that looks parameters up by name finds "
        "only the first."
    ),
    example="self.out.weight = self.embed.weight",
    check=check,
)
