"""A difference between runtime and eager that a tie explains, proven by giving eager that choice.

Every instruction computes what eager does from its own inputs, and still the gradients differ:
then an op may have met a tie that the two resolve in another way, or two values so close that
rounding decided (the entries of a max pool, a relu near zero). They are looked at one by one; where
each choice of the runtime is admissible, eager is run again with those choices, and must give the
runtime's gradients within the same rounding as always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from graphcheck.errors import ModelError
from graphcheck.runtime.lower import Lowered
from graphcheck.runtime.stream import Take
from graphcheck.runtime.types import EVERY_STEP, InstructionDump, Trace, TrainRequest
from graphcheck.validate.compare import VISIBLE, Comparison, compare
from graphcheck.validate.emitted import dump_sizes
from graphcheck.validate.measure import measure
from graphcheck.validate.noise import noise_mode
from graphcheck.validate.oracle import Oracle
from graphcheck.validate.reason import told_divergence
from graphcheck.validate.ties.choices import Choice, choice_of, sites
from graphcheck.validate.ties.chosen import (
    Decided,
    NotATie,
    StepChoices,
    chosen_mode,
    watching_mode,
)
from graphcheck.validate.ties.rules import at_zero_mode, rule_mode
from graphcheck.validate.ties.told import told_decisions
from graphcheck.worker import progress

__all__ = ["explain_by_ties"]

_MOST_BYTES = 512 << 20
"""What a device may send back that cannot be read from while it runs."""
_NOTHING = 1e-6
"""Of the largest gradient of a step: what is zero but for rounding."""
_SLOPES = {
    1.0: "lets the gradient of relu through at zero",
    0.5: "halves the gradient of relu at zero",
}


@dataclass(frozen=True)
class _Runtime:
    """The program on its device: `stream` is None where its dump cannot be read meanwhile."""

    train: Callable[[TrainRequest], Trace]
    stream: Callable[[TrainRequest, Take], Trace] | None
    request: TrainRequest
    lowered: Lowered


@dataclass(frozen=True)
class _Names:
    order: Sequence[str]
    prefix: str


def explain_by_ties(
    train: Callable[[TrainRequest], Trace],
    request: TrainRequest,
    lowered: Lowered,
    oracles: Callable[[], Oracle],
    trace: Trace,
    comparison: Comparison,
    *,
    order: Sequence[str],
    prefix: str,
    stream: Callable[[TrainRequest, Take], Trace] | None = None,
) -> Comparison:
    """A comparison without the difference where ties explain it, else the one that was given.

    A difference within a tolerance that is as wide as a jump at a tie is looked at, too.

    `trace` is the run that was compared, `oracles` makes an oracle with the weights the program was
    made with.
    """
    if comparison.names_shifted or not _apart(comparison):
        return comparison
    progress("looking for ties")
    runtime, names = _Runtime(train, stream, request, lowered), _Names(order, prefix)
    choices = _recorded(runtime, trace)
    try:
        again = _by_choices(trace, choices, oracles(), comparison, names) if choices else None
        if again is None:
            again = _by_rules(trace, oracles, comparison, names)
    except Exception as error:
        # A model may not bear that its ops are watched, which is no fault of its training step.
        told = isinstance(error, ModelError) and error.code == "GC014"
        raised = error.__cause__ if told and error.__cause__ else error
        why = (str(raised).splitlines() or [""])[0]
        comparison.notes.append(
            f"whether ties explain the difference is NOT CHECKED: {type(raised).__name__}: {why}"
        )
        return comparison
    return again or comparison


def _by_choices(
    trace: Trace,
    choices: dict[int, list[Choice]],
    oracle: Oracle,
    comparison: Comparison,
    names: _Names,
) -> Comparison | None:
    """With the choices that the runtime made, by step; None where they explain nothing."""
    decided: list[Decided] = []
    current: tuple[int, StepChoices] | None = None

    @contextmanager
    def around(step: int) -> Iterator[None]:
        # The first pass of a step is the plain one, later ones measure what noise does to it.
        nonlocal current
        first = current is None or current[0] != step
        if first:
            current = step, StepChoices(choices.pop(step, ()), _spread(oracle, step))
        assert current is not None
        with chosen_mode(current[1]):
            yield
        if first:
            decided.extend(current[1].decided)

    again = _again(oracle, around, trace, names)
    if again is None or not decided:
        return None
    if _apart(again):
        if comparison.first_locked is None and again.first_locked is not None:
            comparison.notes.append(
                "ties do not explain a difference that the tolerance allows for their sake: with "
                f"the runtime's choices, {told_divergence(again.first_locked)}"
            )
        return None
    again.notes += told_decisions(decided)
    return _merged(comparison, again, other_rule=any(entry.equal for entry in decided))


def _recorded(runtime: _Runtime, plain: Trace) -> dict[int, list[Choice]]:
    """By step, what each instruction that can meet ties decided, in a run like the `plain` one.

    Nothing where a device would have to send back too much, or where the run was another.
    """
    modules = {place.index: place.source.module for place in sites(runtime.lowered)}
    if not modules:
        return {}
    wanted = replace(
        runtime.request,
        steps=len(plain.steps),
        detect_stale=False,
        record=False,
        dump_step=EVERY_STEP,
        dump_only=tuple(modules),
    )
    choices: dict[int, list[Choice]] = {}

    def take(record: InstructionDump) -> None:
        made = choice_of(record, modules.get(record.instruction, ""))
        if made is not None:
            choices.setdefault(record.step, []).append(made)

    if runtime.stream is not None:
        trace = runtime.stream(wanted, take)
    else:
        sizes = dump_sizes(runtime.lowered)
        if sum(sizes.get(index, 0) for index in modules) * wanted.steps > _MOST_BYTES:
            return {}
        trace = runtime.train(wanted)
        for record in trace.dump:
            take(record)
    same = [step.loss for step in trace.steps] == [step.loss for step in plain.steps]
    return choices if same else {}


def _spread(oracle: Oracle, step: int) -> list[Any]:
    """How far noise moves the input of each op that can meet ties: entry by entry, but no less
    than it moves the others of its image in the mean."""
    import torch

    passes: list[list[Any]] = []
    for sign in (0, 1, -1):
        passes.append([])
        with ExitStack() as stack:
            # Entered before it, the noise is added to what the watcher lets through.
            if sign:
                stack.enter_context(noise_mode(sign, 104729 + step))
            oracle.forward(step, watching_mode(passes[-1]))
    plain, *moved = passes
    found = []
    for index, entry in enumerate(plain):
        off = torch.zeros_like(entry)
        for other in moved:
            if index < len(other) and other[index].shape == entry.shape:
                off = torch.maximum(off, torch.nan_to_num_((other[index] - entry).abs_(), 0.0))
        rows = off.flatten(1) if off.dim() > 1 else off.reshape(1, -1)
        mean = rows.square().mean(1).sqrt() if off.numel() else rows.sum(1)
        found.append(torch.maximum(off, mean.reshape([-1, *[1] * (off.dim() - 1)][: off.dim()])))
    return found


def _by_rules(
    trace: Trace, oracles: Callable[[], Oracle], comparison: Comparison, names: _Names
) -> Comparison | None:
    """By another rule that the program may have been written with (a pool made of amax)."""
    for sentence, mode in _rules(oracles()):

        @contextmanager
        def around(_: int, mode: Callable[[], Any] = mode) -> Iterator[None]:
            with mode():
                yield

        if not _agrees(oracles(), around, trace):
            continue
        again = _again(oracles(), around, trace, names)
        if again is None or _apart(again):
            continue
        again.notes.append(
            f"RULE CHANGE: the program {sentence}; by that rule eager agrees, so this is no error"
        )
        return _merged(comparison, again, other_rule=True)
    return None


def _agrees(
    oracle: Oracle, around: Callable[[int], AbstractContextManager[Any]], trace: Trace
) -> bool:
    """Whether gradients are about those of the runtime: told by one pass of each step, where a
    comparison measures with many what rounding does."""
    oracle.around = around
    for index, record in enumerate(trace.steps):
        if index and record.parameters:
            oracle.load(record.parameters)
        eager = oracle.step(index)
        largest = max((float(abs(g).max()) for g in eager.gradients.values() if g.size), default=0)
        for name, gradient in record.gradients.items():
            known = oracle.aliases.get(name, name)
            if known not in eager.gradients:
                continue
            error = measure(gradient, eager.gradients[known])
            if not (error.absolute <= max(VISIBLE * error.scale, _NOTHING * largest)):
                return False
    return True


def _rules(oracle: Oracle) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The rules that can make a difference to a model."""
    yield (
        "shares the gradient of a tie equally among the largest values of a max pool",
        partial(rule_mode, split=True),
    )
    zeros: list[int] = []
    oracle.forward(0, at_zero_mode(0.0, zeros))
    if not any(zeros):
        return
    for slope, told in _SLOPES.items():
        yield told, partial(at_zero_mode, slope, [])


def _again(
    oracle: Oracle,
    around: Callable[[int], AbstractContextManager[Any]],
    trace: Trace,
    names: _Names,
) -> Comparison | None:
    oracle.around = around
    try:
        return compare(trace, oracle, None, order=names.order, prefix=names.prefix)
    except NotATie:
        return None
    finally:
        oracle.around = lambda _: nullcontext()


def _apart(comparison: Comparison) -> bool:
    """Whether gradients differ, or would but for the jumps that tolerances allow at kinks."""
    worst = max(comparison.worst.values(), default=0.0)
    return comparison.first_locked is not None or not (worst <= VISIBLE)


def _merged(comparison: Comparison, again: Comparison, *, other_rule: bool) -> Comparison:
    """Free running, another rule trains another curve: that is not compared."""
    again.eager_losses = comparison.eager_losses
    again.by_choice = True
    again.other_rule = other_rule
    if not other_rule:
        again.first_free = comparison.first_free
    return again
