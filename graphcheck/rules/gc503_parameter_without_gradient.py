"""GC503: a trainable parameter gets no gradient."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from graphcheck.graph.freezing import freeze_patterns
from graphcheck.graph.types import JointGraph, Source
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["RULE"]


_SHOWN = 6


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    trainable = [p.name for p in graph.parameters if p.trainable]
    by_cut: dict[tuple[str, Source | None], dict[str, str]] = {}
    for p in graph.parameters:
        if p.trainable and not p.has_gradient:
            by_cut.setdefault((p.cut_by, p.cut), {})[p.name] = p.module
    for (by, cut), modules in by_cut.items():
        for pattern, names in freeze_patterns(modules, trainable).items():
            module = modules.get(pattern, pattern)
            source = replace(cut, module=module) if cut else Source(module=module)
            told = f"; {by} cuts {pattern} off on this line" if cut else ""
            yield Finding(
                code=RULE.code,
                severity=Severity.ERROR,
                subject="parameter without gradient",
                message=(
                    f"the loss does not depend on {_listed(names)}; the joint export stops with an "
                    f"assertion that names no parameter{told}"
                ),
                source=source,
                module=module,
                modules=(module,),
                count=len(names),
                evidence=(
                    (f"trainable without gradient: {', '.join(names)}",)
                    if len(names) > _SHOWN
                    else ()
                ),
                mends=(
                    Mend(
                        "edit",
                        "freeze",
                        f"freeze {pattern}, or use it in forward, or remove it",
                        True,
                        f"graphcheck export --freeze {shlex.quote(pattern)}",
                    ),
                ),
                gradients=tuple(names),
            )


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


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
