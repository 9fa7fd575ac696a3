"""GC501: buffers written in forward shift the names of gradients, and lose their initial state."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.types import BufferFact, JointGraph, Source
from graphcheck.rules.interface import Context, Rule
from graphcheck.rules.types import Finding, Mend, Severity
from graphcheck.rules.wrong import runtime_of, standing

__all__ = ["RULE"]

_MENDS = (
    Mend(
        "rewrite",
        "buffers",
        "correct the training metadata and keep the initial state at export",
        True,
        "graphcheck export",
    ),
)


def check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    mutated = [buffer for buffer in graph.buffers if buffer.mutated]
    if not mutated:
        return
    advisories = [a for a in context.advisories if a.rule == RULE.code]
    known = [(advisory.id, *standing(advisory, context)) for advisory in advisories]
    told = [(name, how, why) for name, how, why in known if how not in ("right", "fixed")]
    if known and not told:
        return
    unseen = bool(told) and all(how == "unknown" for _, how, _ in told)
    count = len(mutated)
    message = (
        f"the program's training metadata counts {count} mutated "
        f"buffer{'s' if count > 1 else ''} as method output{'s' if count > 1 else ''}: every "
        "gradient and parameter index is too large by that number, so each name gets a "
        "neighbour's gradient"
    )
    if unseen:
        faults = " and ".join(name for name, _, _ in told)
        message = (
            f"were NOT CHECKED: {faults} {'was' if len(told) == 1 else 'were'} not measured on "
            f"{runtime_of(context)}; elsewhere {message}"
        )
    for module in dict.fromkeys(_owner(buffer) for buffer in mutated):
        own = [buffer for buffer in mutated if _owner(buffer) == module]
        first = own[0]
        evidence = [why for _, _, why in told]
        if any(buffer.initial_nonzero for buffer in own):
            names = sorted({b.name.rpartition(".")[2] for b in own if b.initial_nonzero})
            evidence.append(f"initial state is lost: {', '.join(names)} would start as zeros")
        yield Finding(
            code=RULE.code,
            severity=Severity.NOTE if unseen else Severity.ERROR,
            subject="mutated buffers",
            message=message,
            source=_source(graph, first, module),
            module=module,
            modules=(module,),
            count=len(own),
            evidence=tuple(evidence),
            mends=_MENDS,
            gradients=tuple(p.name for p in graph.parameters if p.trainable),
        )


def _owner(buffer: BufferFact) -> str:
    """The module of the buffer; the buffer's own name when it belongs to the root module."""
    return buffer.name if buffer.module == "forward" else buffer.module


def _source(graph: JointGraph, buffer: BufferFact, module: str) -> Source:
    for call in graph.calls:
        if buffer.name in call.buffers and call.source.module in (module, "forward"):
            return call.source
    return Source(module=module, module_type=buffer.module_type)


RULE = Rule(
    code="GC501",
    name="mutated-buffers",
    severity=Severity.ERROR,
    summary="A buffer is written in forward: names of gradients shift, initial state is lost.",
    explanation=(
        "The training methods of a program (`__et_training_gradients_index_*`, "
        "`..._parameters_index_*`) say at which output gradients and parameters begin. Lowering "
        "counts a mutated buffer as an output of the method, which it is not, so both numbers come "
        "out too large by the number of mutated buffers. Parameters of equal shape then train "
        "with each other's gradients, without an error; unequal shapes raise in the optimizer. "
        "BatchNorm with live running statistics is the usual cause.\n"
        "Also, the initial state of a mutated buffer is not written into the program: it starts "
        "as zeros (`running_var` 0 in place of 1) unless InitializedMutableBufferPass names it.\n"
        "On a release where none of this was measured, and that no range holds, it is a note that "
        "says NOT CHECKED."
    ),
    example="self.seen.add_(1.0)  # in forward, `seen` being a registered buffer",
    check=check,
)
