"""GC508: the optimizer of ExecuTorch's Python bindings on half-precision parameters."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.counted import counted
from graphcheck.graph.types import JointGraph, Source
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Mend, Severity
from graphcheck.rules.wrong import runtime_of, standing

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    affected = [p for p in graph.parameters if p.trainable and p.dtype in ("bfloat16", "float16")]
    if not affected:
        return
    advisories = [a for a in context.advisories if a.rule == RULE.code]
    known = [standing(advisory, context) for advisory in advisories]
    if known and all(how in ("right", "fixed") for how, _ in known):
        return
    kinds = " and ".join(sorted({p.dtype for p in affected}))
    one = len(affected) == 1
    message = (
        f"{counted(len(affected), 'trainable parameter')} {'is' if one else 'are'} {kinds}: the "
        f"SGD of ExecuTorch's Python bindings treats {'it' if one else 'them'} as float32 and "
        f"writes past {'its' if one else 'their'} storage"
    )
    if known and all(how in ("right", "fixed", "unknown") for how, _ in known):
        message = (
            f"was NOT CHECKED: {advisories[0].id} was not measured on {runtime_of(context)}; "
            f"elsewhere {message}"
        )
    for module in dict.fromkeys(p.module for p in affected):
        own = [p for p in affected if p.module == module]
        yield Finding(
            code=RULE.code,
            severity=Severity.NOTE,
            subject="optimizer on half parameters",
            message=message,
            source=Source(module=module),
            module=module,
            modules=(module,),
            count=len(own),
            evidence=tuple(evidence for _, evidence in known),
            mends=(
                Mend(
                    "edit",
                    "float32 parameters",
                    "keep parameters in float32 and cast activations, or update them in your own "
                    "optimizer",
                    False,
                ),
            ),
            gradients=tuple(p.name for p in own),
            advisory=advisories[0].id if advisories else "",
        )


RULE = Rule(
    code="GC508",
    name="half-precision-optimizer",
    severity=Severity.NOTE,
    summary="The bindings' SGD corrupts float16 and bfloat16 parameters.",
    explanation=(
        "The SGD of ExecuTorch's Python training bindings takes every parameter for float32. On "
        "float16 and bfloat16 it writes twice the bytes: parameters become NaN, and the heap may "
        "be damaged."
    ),
    example="model.to(torch.bfloat16)",
    check=check,
)
