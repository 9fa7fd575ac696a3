"""A difference between runtime and eager that a tie explains, proven by giving eager that choice.

Every instruction computes what eager does from its own inputs, and still the gradients differ:
then a max pool may have met a tie that the two resolve in another way, or two values so close that
rounding decided. Its windows are looked at one by one; where each choice of the runtime is
admissible, eager is run again with those choices, and must give the runtime's gradients within the
same rounding as always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from graphcheck.runtime.lower import Instruction, Lowered
from graphcheck.runtime.types import EVERY_STEP, Trace, TrainRequest
from graphcheck.validate.compare import VISIBLE, Comparison, compare
from graphcheck.validate.noise import AMPLITUDE, unit
from graphcheck.validate.oracle import Oracle
from graphcheck.validate.ties.rules import FORWARD, NotATie, chosen_mode, rule_mode
from graphcheck.worker import progress

__all__ = ["RULE_CHANGE", "explain_by_ties", "pools_of"]

RULE_CHANGE = "RULE CHANGE"


def pools_of(lowered: Lowered) -> tuple[Instruction, ...]:
    """The max pools of a program, in order of execution."""
    return tuple(i for i in lowered.instructions if i.op == f"{FORWARD}.out")


def explain_by_ties(
    train: Callable[[TrainRequest], Trace],
    request: TrainRequest,
    lowered: Lowered,
    oracles: Callable[[], Oracle],
    comparison: Comparison,
    *,
    order: Sequence[str],
    prefix: str,
) -> Comparison:
    """A comparison without the difference where ties explain it, else the one that was given.

    A difference within a tolerance that is as wide as a jump at a tie is looked at, too.

    `oracles` makes an oracle with the weights the program was made with.
    """
    pools = pools_of(lowered)
    if comparison.names_shifted or not _apart(comparison):
        return comparison
    progress("looking for ties in max pools")
    if not pools:
        return _split(train, request, oracles(), comparison, order=order, prefix=prefix)
    trace = train(
        replace(
            request,
            dump_step=EVERY_STEP,
            dump_only=tuple(pool.index for pool in pools),
            detect_stale=False,
        )
    )
    choices: dict[int, list[Any]] = {}
    for record in trace.dump:
        if len(record.outputs) == 2:
            choices.setdefault(record.step, []).append(record.outputs[1].array)
    counts: list[tuple[int, int]] = []
    judged: set[int] = set()

    @contextmanager
    def around(step: int) -> Iterator[None]:
        # The first pass of a step is the plain one, later ones measure what noise does to it.
        with chosen_mode(choices.get(step, []), _interval, counts, judge=step not in judged):
            yield
        judged.add(step)

    again = _again(oracles(), around, trace, order, prefix)
    if again is None or _apart(again):
        return _split(train, request, oracles(), comparison, order=order, prefix=prefix)
    equal, near = (sum(pair[k] for pair in counts) for k in (0, 1))
    names = ", ".join(dict.fromkeys(p.source.module for p in pools if p.source.module))
    where = f" ({names})" if names else ""
    if equal:
        again.notes.append(
            f"{RULE_CHANGE}: max pools of the runtime{where} take another of equal values in "
            f"{equal} windows; with the runtime's choices eager agrees, so this is no error"
        )
    if near:
        again.notes.append(
            f"a tie, no error: in {near} windows of max pools{where} rounding decides between "
            "values that are nearly equal; with the runtime's choices eager agrees"
        )
    return _merged(comparison, again)


def _split(
    train: Callable[[TrainRequest], Trace],
    request: TrainRequest,
    oracle: Oracle,
    comparison: Comparison,
    *,
    order: Sequence[str],
    prefix: str,
) -> Comparison:
    """The same for a program that shares the gradient of a tie equally (a pool made of amax)."""

    @contextmanager
    def around(_: int) -> Iterator[None]:
        with rule_mode(split=True):
            yield

    trace = train(replace(request, detect_stale=False, dump_step=None))
    again = _again(oracle, around, trace, order, prefix)
    if again is None or _apart(again):
        return comparison
    again.notes.append(
        f"{RULE_CHANGE}: the program shares the gradient of a tie equally among the largest "
        "values of a max pool; by that rule eager agrees, so this is no error"
    )
    return _merged(comparison, again)


def _again(
    oracle: Oracle, around: Callable[[int], Any], trace: Trace, order: Sequence[str], prefix: str
) -> Comparison | None:
    oracle.around = around
    try:
        return compare(trace, oracle, None, order=order, prefix=prefix)
    except NotATie:
        return None
    finally:
        oracle.around = lambda _: nullcontext()


def _apart(comparison: Comparison) -> bool:
    """Whether gradients differ, or would but for the jumps that tolerances allow at kinks."""
    worst = max(comparison.worst.values(), default=0.0)
    return comparison.first_locked is not None or not (worst <= VISIBLE)


def _merged(comparison: Comparison, again: Comparison) -> Comparison:
    """Free running, another rule trains another curve: that is not compared."""
    again.eager_losses = comparison.eager_losses
    again.by_choice = True
    return again


def _interval(source: Any) -> Any:
    """How far rounding may have moved each entry of a pool's input: a few last places of it, or
    of the largest entry of its image, from whose terms it may have been made."""
    scale = source.detach().double().abs()
    image = scale.flatten(1).amax(1).reshape(-1, *[1] * (scale.dim() - 1))
    return AMPLITUDE * unit(source.dtype) * (scale + image)
