"""GC509: dropout or batch normalisation in eval mode."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import JointGraph, Source
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Severity

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    for module, kind in graph.evaluating:
        yield Finding(
            code=RULE.code,
            severity=Severity.NOTE,
            subject="eval mode",
            message=f"{kind} is in eval mode, and is checked, exported and trained like that",
            source=Source(module=module, module_type=kind),
            module=module,
            modules=(module,),
        )


RULE = Rule(
    code="GC509",
    name="eval-mode",
    severity=Severity.NOTE,
    summary="Dropout or batch normalisation is in eval mode.",
    explanation=(
        "A module in eval mode is taken as it is: dropout drops nothing, and batch normalisation "
        "keeps its running statistics. That is usual for fine-tuning a frozen trunk. If it was "
        "forgotten after an evaluation, call model.train() in get_model()."
    ),
    example="model.eval()  # before the check",
    check=check,
)
