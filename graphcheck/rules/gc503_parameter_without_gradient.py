"""GC503: a trainable parameter gets no gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from graphcheck.graph.types import JointGraph, Source
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["RULE"]


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    missing = [p for p in graph.parameters if p.trainable and not p.has_gradient]
    names = ", ".join(p.name for p in missing[:6])
    if len(missing) > 6:
        names += f" and {len(missing) - 6} more"
    for module in dict.fromkeys(p.module for p in missing):
        own = [p for p in missing if p.module == module]
        cut, by = next(((p.cut, p.cut_by) for p in own if p.cut), (None, ""))
        source = replace(cut, module=module) if cut else Source(module=module)
        yield Finding(
            code=RULE.code,
            severity=Severity.ERROR,
            subject="parameter without gradient",
            message=(
                f"the loss does not depend on {names}; the joint export stops with an assertion "
                "that names no parameter" + (f"; {by} cuts {module} off on this line" if by else "")
            ),
            source=source,
            module=module,
            modules=(module,),
            count=len(own),
            evidence=(f"trainable without gradient: {', '.join(p.name for p in own)}",),
            mends=(
                Mend(
                    "edit",
                    "freeze",
                    f"freeze {module}, or use it in forward, or remove it",
                    True,
                    f"graphcheck export --freeze '{module}'",
                ),
            ),
            gradients=tuple(p.name for p in own),
        )


RULE = Rule(
    code="GC503",
    name="parameter-without-gradient",
    severity=Severity.ERROR,
    summary="A trainable parameter gets no gradient.",
    explanation=(
        "torch's joint export asserts that every parameter that requires a gradient gets one, and "
        "does not say which did not. Typical causes: a layer that forward does not use, an "
        "auxiliary head whose output is dropped, a detach() in between. Freeze the parameter or "
        "use it. graphcheck goes on as if it were frozen, so that all other findings are there."
    ),
    example="self.spare = nn.Linear(6, 3)  # never called in forward",
    check=check,
)
