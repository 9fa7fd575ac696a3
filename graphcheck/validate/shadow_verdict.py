"""Shadow execution when it is asked for: which steps, and what it means for the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from graphcheck.counted import counted
from graphcheck.errors import UsageError
from graphcheck.runtime.lower import Lowered
from graphcheck.runtime.types import Trace, TrainRequest
from graphcheck.validate.compare import Comparison
from graphcheck.validate.random_ops import blame_instruction
from graphcheck.validate.reason import locate
from graphcheck.validate.shadow_stage import ShadowStage
from graphcheck.validate.types import Divergence, Shadow, Verdict, WrongInstruction

__all__ = ["shadow_all", "with_shadow"]


def shadow_all(
    stage: ShadowStage,
    request: TrainRequest,
    lowered: Lowered,
    trace: Trace,
    comparison: Comparison,
    steps: Sequence[int],
    prefix: str,
) -> Shadow | None:
    """All chosen instructions at these steps (the first and the last), after the plain run.

    A wrong instruction becomes the divergence where the comparison has none. Raises UsageError for
    a step that was not trained.
    """
    done = len(trace.steps)
    late = [step for step in steps if step >= done]
    if late:
        raise UsageError(
            f"step {late[0]} cannot be recorded: {counted(done, 'step')} "
            f"{'was' if done == 1 else 'were'} trained",
            "--shadow-step counts from 0",
        )
    last = comparison.first_locked.step if comparison.first_locked else done - 1
    shadowed = stage.of_steps(
        request, lowered, tuple(sorted(set(steps))) or tuple(sorted({0, last})), trace
    )
    if shadowed is not None and comparison.first_locked is None and shadowed.wrong:
        blame_instruction(comparison, shadowed, lowered, prefix)
        _blame_writes(comparison, shadowed.wrong)
        if comparison.first_locked is None:
            stage.notes.append(
                "no gradient and no loss depends on the wrong instructions: training is right"
            )
    return shadowed


def _blame_writes(comparison: Comparison, wrong: Sequence[WrongInstruction]) -> None:
    """What writes where it must not is a fault, whatever depends on it."""
    for found in wrong:
        if comparison.first_locked is None and found.detail.startswith("writes "):
            name = f"instruction {found.instruction}"
            comparison.first_locked = Divergence(found.step, name, math.nan, math.nan, 0.0, 0.0)
            comparison.told = (
                f"{name} ({found.op}){locate(found.module, found.source)} {found.detail}"
            )


def with_shadow(verdict: Verdict, shadowed: Shadow) -> Verdict:
    """The verdict with what shadow execution found."""
    return replace(
        verdict,
        first_wrong=shadowed.wrong[0] if shadowed.wrong else None,
        shadow_checked=True,
        wrong=tuple(shadowed.wrong),
        shadow_instructions=shadowed.checked,
    )
