"""GC505: parameters that will not train."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph, Source
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Severity

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    frozen = [p for p in graph.parameters if not p.trainable]
    for module in dict.fromkeys(p.module for p in frozen):
        yield Finding(
            code=RULE.code,
            severity=Severity.NOTE,
            subject="frozen parameters",
            message=f"{len(frozen)} of {len(graph.parameters)} parameters are frozen",
            source=Source(module=module),
            module=module,
            modules=(module,),
            count=sum(p.module == module for p in frozen),
        )


RULE = Rule(
    code="GC505",
    name="frozen-parameters",
    severity=Severity.NOTE,
    summary="Some parameters do not require a gradient.",
    explanation=(
        "Frozen parameters become constants of the program: they are in none of its training "
        "methods and cannot be thawed on the device. Said so that a forgotten freeze is seen."
    ),
    example="for p in backbone.parameters(): p.requires_grad_(False)",
    check=check,
)
