"""Words of a verdict: where an instruction is from, why a run ended, what the comparison says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from graphcheck.counted import counted
from graphcheck.errors import ModelError
from graphcheck.graph.types import Source
from graphcheck.runtime.lower import Instruction, Lowered
from graphcheck.runtime.types import RunFailure, Trace
from graphcheck.validate.compare import Comparison
from graphcheck.validate.measure import LOSS
from graphcheck.validate.types import Divergence, Shadow, StaleOutput

__all__ = [
    "gradient_order",
    "locate",
    "lost_in_eager",
    "place",
    "stale_outputs",
    "told_divergence",
    "told_failure",
    "told_verdict",
]


def place(source: Source) -> str:
    """`model.py:20`, empty where unknown."""
    return f"{source.file}:{source.line}" if source.file and source.line else ""


def locate(module: str, source: str = "") -> str:
    """` at pool1 (model.py:20)`, as far as known."""
    return (f" at {module}" if module else "") + (f" ({source})" if source else "")


_UNSET = ("empty", "new_empty")
"""Operators that leave their result as it was."""


def stale_outputs(trace: Trace, places: Mapping[int, Instruction]) -> Iterator[StaleOutput]:
    """What the stale-output detector flagged, with module and source line.

    That `empty` gives what its memory held is no fault, unless something reads it.
    """
    read = {index for output in trace.stale for index in output.inputs_from}
    for output in trace.stale:
        name = output.op.rpartition("::")[2].lstrip("_")
        if name.startswith(_UNSET) and output.instruction not in read:
            continue
        known = places.get(output.instruction)
        yield StaleOutput(
            instruction=output.instruction,
            op=output.op,
            module=known.source.module if known else "",
            source=place(known.source) if known else "",
            caused_by=output.inputs_from[0] if output.inputs_from else None,
        )


def gradient_order(lowered: Lowered) -> tuple[str, ...]:
    """Parameters in the order in which the joint graph makes their gradients."""
    if lowered.joint is None:
        return ()
    position = {node.name: index for index, node in enumerate(lowered.joint.graph.nodes)}
    gradients = [
        (position.get(spec.arg.name, len(position)), str(spec.target))
        for spec in lowered.joint.graph_signature.output_specs
        if spec.kind.name == "GRADIENT_TO_PARAMETER"
    ]
    return tuple(name for _, name in sorted(gradients))


def told_failure(failure: RunFailure, places: Mapping[int, Instruction]) -> str:
    """The failure's sentence, with the modules of the instruction or the operators it is about."""
    told = failure.message.rstrip(".")
    if failure.instruction is not None:
        known = [places[failure.instruction]] if failure.instruction in places else []
    else:
        named = [i for i in places.values() if i.op and i.op in failure.message]
        known = [i for i in named if failure.op in ("", i.op)]
    where = {
        i.source.module: locate(i.source.module, place(i.source)).removeprefix(" at ")
        for i in known
        if i.source.module
    }
    if not where:
        return told
    more = f" and {len(where) - 3} more" if len(where) > 3 else ""
    return f"{told}, at {', '.join(list(where.values())[:3])}{more}"


def told_divergence(divergence: Divergence) -> str:
    """`gradient of a.weight at step 3: off by 1.2e-2 of its largest entry, tolerance 3.1e-6`"""
    what = "loss" if divergence.quantity == LOSS else f"gradient of {divergence.quantity}"
    where = f"{what} at step {divergence.step}"
    if divergence.error == float("inf") and divergence.runtime != divergence.runtime:
        return f"{where}: the program has none of this name and shape"
    size = "its value" if divergence.quantity == LOSS else "its largest entry"
    return (
        f"{where}: {divergence.runtime:.6g} in the runtime, {divergence.eager:.6g} in eager "
        f"(off by {divergence.error:.2g} of {size}, tolerance {divergence.tolerance:.2g})"
    )


def lost_in_eager(comparison: Comparison) -> str:
    """Why there is nothing to compare with: loss or gradients of eager itself; "" if there is."""
    first = "there is nothing to compare with; look at the model and its example inputs"
    if comparison.eager_losses and not math.isfinite(comparison.eager_losses[0]):
        return (
            f"the loss is {comparison.eager_losses[0]} at step 0 in eager PyTorch itself: {first}"
        )
    if comparison.lost is None or comparison.first_locked is not None:
        return ""
    step, name, maker = comparison.lost
    by = f" (first made by {maker})" if maker else ""
    what = f"the gradient of {name} is not finite at step {step} in eager PyTorch itself{by}"
    if not step:
        return f"{what}: {first}"
    return (
        f"{what}: there is nothing to compare with from there on; train with a smaller "
        "--learning-rate, or look at the model and its data"
    )


def told_verdict(
    comparison: Comparison,
    trace: Trace,
    places: Mapping[int, Instruction],
    stale: Sequence[StaleOutput],
    wanted: int,
    shadowed: Shadow | None = None,
    lost: Callable[[], Sequence[ModelError]] = tuple,
) -> tuple[str, str]:
    """The verdict and its reason: match, drift or diverged; not run when training stopped early.

    `lost` tells what export leaves out; it is asked where no instruction is to blame.
    """
    because = _because(stale, shadowed)
    if comparison.first_locked is not None:
        told = comparison.told or told_divergence(comparison.first_locked)
        if not because and comparison.names_shifted:
            because = "; the program's training metadata gives gradients the names of others"
        elif not because and shadowed is not None and shadowed.checked:
            because = (
                "; every instruction that could be checked computes what eager computes from its "
                "inputs, so the fault is in "
            )
            left_out = [problem.message.rstrip(".") for problem in lost()]
            because += (
                f"what export leaves out: {'; '.join(left_out)}"
                if left_out
                else "how the program is put together"
            )
        return "diverged", told + because
    done = len(trace.steps)
    if trace.failure is not None or done < wanted:
        told = told_failure(trace.failure, places) if trace.failure else "no reason was given"
        return "not run", f"stopped after {done} of {counted(wanted, 'step')}, which agree: {told}"
    if comparison.locked_steps == 0 and not comparison.worst:
        return "not run", "the runtime recorded no gradients to compare"
    if 0 < comparison.locked_steps < done and not comparison.names_shifted:
        return (
            "not run",
            f"after {counted(comparison.locked_steps, 'step')} of {done}, which agree, the weights "
            "are not finite, so that nothing is left to compare: train with a smaller "
            "--learning-rate, or look at the model and its data",
        )
    if comparison.first_free is not None:
        return (
            "drift",
            "with the weights reset to the runtime's before each step every gradient agrees, but "
            f"training freely the curves part: {told_divergence(comparison.first_free)}{because}",
        )
    told = f"the loss and {counted(len(comparison.worst), 'gradient')}"
    how = " in distribution" if comparison.by_distribution else ""
    if comparison.replayed:
        how = " under the runtime's own draws"
    if comparison.by_choice:
        how = " under the runtime's own choices at ties"
    return "match", f"{told} agree with eager{how} at each of {counted(done, 'step')}{because}"


def _because(stale: Sequence[StaleOutput], shadowed: Shadow | None) -> str:
    """The instructions at fault: the first that is wrong, or else those with stale outputs."""
    roots = {output.instruction: output for output in stale if output.caused_by is None}
    if shadowed is not None and shadowed.wrong:
        first = shadowed.wrong[0]
        why = first.detail
        if not why and first.instruction in roots:
            why = "its result depends on what its memory held before"
        others = len(shadowed.wrong) - 1
        more = f", and {others} more" if others else ""
        return (
            f"; first wrong instruction: {first.instruction}, {first.op}"
            f"{locate(first.module, first.source)}{f': {why}' if why else ''}{more}"
        )
    return "".join(
        f"; {root.op}{locate(root.module, root.source)} depends on what its memory held before"
        for root in list(roots.values())[:3]
    )
