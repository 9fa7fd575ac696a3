"""Models with random ops (dropout, noise): what can be compared, compared; never wrong for chance.

The runtime draws its own random numbers, so loss and gradients of a step cannot be those of eager.
Two comparisons remain.

- By replay (`graphcheck.validate.replay`): where the device can dump instructions, the runtime's
  own draws of each step are fed into eager, and everything must agree to rounding.
- By distribution (here), where the draws cannot be replayed: with the eager weights set to the
  runtime's, eager draws many times. Each gradient is projected on the mean gradient of half of the
  draws; the projections of the other half say how it scatters, and the runtime's must be one of
  them. The same for its squared size and for the loss. Summed over all steps, a missing scale of a
  dropout stands out by many deviations, while a right program stays within `LIMIT`, unless a
  gradient has heavy tails (a batch norm of few values).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from graphcheck.counted import counted
from graphcheck.runtime.lower import Instruction, Lowered
from graphcheck.runtime.types import Trace
from graphcheck.validate.compare import Comparison, shifted_names
from graphcheck.validate.emitted import reached
from graphcheck.validate.measure import LOSS
from graphcheck.validate.noise import noise_mode
from graphcheck.validate.oracle import Oracle
from graphcheck.validate.types import Divergence, Shadow
from graphcheck.validate.updates import Updates

__all__ = [
    "LIMIT",
    "blame_instruction",
    "compare_statistics",
    "random_instructions",
    "told_random",
]

LIMIT = 6.0
"""Standard deviations. Chance alone exceeds it once in 5e8 normal draws."""

_DRAWS = 16
_ALL_DRAWS = 320
_LARGE = 1_000_000
_LARGE_ALL_DRAWS = 120
"""Draws over all steps for a model of more than `_LARGE` trainable numbers: each is slow."""


def random_instructions(lowered: Lowered) -> tuple[Instruction, ...]:
    """The instructions that draw random numbers, in order of execution."""
    import torch

    nodes = {node.name: node for node in lowered.joint.graph.nodes} if lowered.joint else {}

    def draws(instruction: Instruction) -> bool:
        target = getattr(nodes.get(instruction.node), "target", None)
        tags = getattr(target, "tags", ())
        return torch.Tag.nondeterministic_seeded in tags

    return tuple(instruction for instruction in lowered.instructions if draws(instruction))


def told_random(
    instructions: tuple[Instruction, ...], steps: int, *, exact: bool, why: str = ""
) -> str:
    """What is compared of a model with random ops, and what is not."""
    names = ", ".join(
        f"{i.op}{f' at {i.source.module}' if i.source.module else ''}" for i in instructions[:3]
    )
    more = f" and {len(instructions) - 3} more" if len(instructions) > 3 else ""
    head = f"the runtime draws its own random numbers ({names}{more}). Compared: "
    trained = f"{head}loss and gradients of {counted(steps, 'step')}"
    if exact:
        return (
            f"{trained} entry by entry, with the runtime's own "
            "draws replayed in eager and the eager weights set to the runtime's before each step. "
            "NOT COMPARED: the free-running curve"
        )
    return (
        f"{trained} by distribution, with the eager weights set to "
        "the runtime's before each step (the eager loss shown is a mean of many draws). "
        f"NOT COMPARED: any entry by itself ({why}), and the free-running curve"
    )


@dataclass
class _Sum:
    """Deviations of one statistic, summed over the steps."""

    deviation: float = 0.0
    variance: float = 0.0
    rounding: float = 0.0
    steps: int = 0

    def add(self, runtime: float, draws: list[float], rounding: float = 0.0) -> None:
        mean = math.fsum(draws) / len(draws)
        spread = math.fsum((draw - mean) ** 2 for draw in draws) / (len(draws) - 1)
        self.deviation += runtime - mean
        # The mean of the draws is itself uncertain.
        self.variance += spread * (1 + 1 / len(draws)) + 1e-10 * mean * mean
        self.rounding += rounding
        self.steps += 1

    @property
    def score(self) -> float:
        excess = abs(self.deviation) - self.rounding
        if excess <= 0:
            return 0.0
        # A deviation that is NaN stays NaN.
        return excess / math.sqrt(self.variance) if self.variance else math.inf

    @property
    def limit(self) -> float:
        """What rounding and `LIMIT` deviations are, on average over the steps."""
        return (self.rounding + LIMIT * math.sqrt(self.variance)) / max(1, self.steps)


@dataclass
class _Statistics:
    """All statistics: (parameter or loss, which) to its sum."""

    sums: dict[tuple[str, str], _Sum] = field(default_factory=dict)

    def add(
        self, name: str, which: str, runtime: float, draws: list[float], rounding: float = 0.0
    ) -> None:
        self.sums.setdefault((name, which), _Sum()).add(runtime, draws, rounding)

    def worst(self) -> tuple[str, str, _Sum] | None:
        """The statistic furthest out, if it is out."""
        out = [
            (name, which, total)
            for (name, which), total in self.sums.items()
            if not (total.score <= LIMIT)
        ]
        # A NaN score is the worst.
        return max(
            out, key=lambda item: (item[2].score != item[2].score, item[2].score), default=None
        )


def _rank(score: float) -> float:
    return math.inf if math.isnan(score) else score


def compare_statistics(
    trace: Trace,
    oracle: Oracle,
    *,
    prefix: str = "",
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compare the distribution of loss and gradients, locked, over all steps of the trace."""
    import numpy

    result = Comparison(by_distribution=True)
    note = shifted_names(trace, oracle, lambda name: name.removeprefix(prefix))
    if note:
        result.names_shifted = True
        result.notes.append(note)
    statistics = _Statistics()
    updates = Updates(oracle)
    draws = _draws(oracle, len(trace.steps))
    for index, record in enumerate(trace.steps):
        progress(f"drawing eager steps to compare with: step {index}")
        if index:
            arrays = record.parameters.values()
            if not record.parameters or not all(
                numpy.isfinite(numpy.asarray(array)).all() for array in arrays
            ):
                break
            oracle.load(record.parameters)
        scatter = _Scatter(draws // 2)
        losses = []
        for draw in range(draws):
            sample = oracle.step(index, keep_state=draw < draws - 1, seed=1_000_003 * index + draw)
            losses.append(sample.loss)
            scatter.add(sample.doubles())
        result.eager_losses.append(math.fsum(losses) / len(losses))
        result.locked_steps = index + 1
        rounding = _rounding(oracle, index, scatter)
        statistics.add(LOSS, "value", record.loss, losses, rounding[LOSS, "value"])
        gradients = {
            oracle.aliases[name]: array
            for name, array in record.gradients.items()
            if name in oracle.aliases
        }
        for name in scatter.direction:
            scatter.compare(statistics, name, gradients.get(name), rounding)
        out = statistics.worst()
        if out is not None:
            result.first_locked = _divergence(index, out, prefix)
            result.told = _told(index, out, prefix)
            break
        update = None
        if not result.names_shifted:
            update = updates.first_wrong(trace, index, lambda name: name.removeprefix(prefix))
        if update is not None:
            result.first_locked, result.told = update
            break
    for (name, which), total in statistics.sums.items():
        if which == "scale" and total.steps:
            result.worst[name.removeprefix(prefix)] = abs(total.deviation) / total.steps
    return result


def blame_instruction(
    comparison: Comparison, shadowed: Shadow, lowered: Lowered, prefix: str
) -> None:
    """Make the first wrong instruction on which training depends the divergence, if any is."""
    for wrong in shadowed.wrong:
        names = reached(lowered, wrong.instruction)
        if not names:
            continue
        name = names[0].removeprefix(prefix)
        what = "the loss" if names[0] == LOSS else f"the gradient of {name}"
        comparison.first_locked = Divergence(
            wrong.step, name, math.nan, math.nan, wrong.error, wrong.tolerance
        )
        comparison.told = (
            f"instruction {wrong.instruction} ({wrong.op}) computes something else than eager "
            f"from the same inputs, and {what} depends on it"
        )
        return


def _draws(oracle: Oracle, steps: int) -> int:
    """How often eager draws at each step; an even number."""
    size = sum(oracle.parameters[name].numel() for name in oracle.trainable)
    total = _ALL_DRAWS if size <= _LARGE else _LARGE_ALL_DRAWS
    draws = max(_DRAWS, -(-total // max(1, steps)))
    return draws + draws % 2


class _Scatter:
    """How the gradients of many draws scatter, kept as one mean and a few numbers per draw.

    The first `half` draws give the mean gradient; every later one is projected on it.
    """

    def __init__(self, half: int) -> None:
        self.half = half
        self.seen = 0
        self.direction: dict[str, Any] = {}
        self.size: dict[str, float] = {}
        self.power: dict[str, float] = {}
        self.scales: dict[str, list[float]] = {}
        self.powers: dict[str, list[float]] = {}

    def add(self, gradients: Mapping[str, Any]) -> None:
        for name, gradient in gradients.items():
            if self.seen < self.half:
                power = float((gradient * gradient).sum())
                self.direction[name] = self.direction.get(name, 0.0) + gradient / self.half
                self.power[name] = self.power.get(name, 0.0) + power / self.half
                continue
            if self.seen == self.half:
                self.size[name] = float((self.direction[name] ** 2).sum())
            values = self.measure(name, gradient)
            if "scale" in values:
                self.scales.setdefault(name, []).append(values["scale"])
            if "squared size" in values:
                self.powers.setdefault(name, []).append(values["squared size"])
        self.seen += 1

    def measure(self, name: str, gradient: Any) -> dict[str, float]:
        """The statistics of one gradient; without one that would be divided by zero."""
        values = {}
        if self.size[name] > 0:
            along = float((gradient * self.direction[name]).sum())
            values["scale"] = along / self.size[name]
        if self.power[name] > 0:
            values["squared size"] = float((gradient * gradient).sum()) / self.power[name]
        return values

    def compare(
        self,
        statistics: _Statistics,
        name: str,
        runtime: Any,
        rounding: Mapping[tuple[str, str], float],
    ) -> None:
        """Add how far the runtime's gradient is from the draws."""
        import numpy

        direction = self.direction[name]
        if runtime is None or numpy.shape(runtime) != direction.shape:
            statistics.add(name, "scale", math.inf, [1.0, 1.0])
            return
        got = numpy.asarray(runtime, dtype=numpy.float64)
        for which, value in self.measure(name, got).items():
            draws = self.scales[name] if which == "scale" else self.powers[name]
            statistics.add(name, which, value, draws, rounding.get((name, which), 0.0))


def _rounding(oracle: Oracle, index: int, scatter: _Scatter) -> dict[tuple[str, str], float]:
    """How far rounding moves each statistic of a step while the draws stay the same.

    Where chance hardly matters (a branch that is nearly zero is dropped), rounding is all there is.
    """

    def statistics(mode: AbstractContextManager[Any] | None) -> dict[tuple[str, str], float]:
        step = oracle.step(index, mode=mode, keep_state=True, seed=1_000_003 * index)
        values = {(LOSS, "value"): step.loss}
        for name, gradient in step.doubles().items():
            for which, value in scatter.measure(name, gradient).items():
                values[name, which] = value
        return values

    still = statistics(None)
    moved = [statistics(noise_mode(sign, index)) for sign in (1, -1)]
    changes = {key: [abs(one[key] - value) for one in moved] for key, value in still.items()}
    # A perturbed pass that overflows says nothing about rounding.
    return {key: sum(c for c in change if math.isfinite(c)) for key, change in changes.items()}


def _told(step: int, out: tuple[str, str, _Sum], prefix: str) -> str:
    name, which, total = out
    if total.deviation == math.inf:
        told = name.removeprefix(prefix)
        return f"gradient of {told} at step {step}: the program has none of this name and shape"
    what = "the loss" if name == LOSS else f"the {which} of the gradient of {name}"
    what = what.replace(f" of {name}", f" of {name.removeprefix(prefix)}")
    mean = total.deviation / max(1, total.steps)
    over = "at step 0" if step == 0 else f"over steps 0 to {step}"
    return (
        f"{what} is {mean:+.2g} off eager's {over}, {total.score:.1f} standard deviations of what "
        f"chance explains (limit {LIMIT:g})"
    )


def _divergence(step: int, out: tuple[str, str, _Sum], prefix: str) -> Divergence:
    name, _, total = out
    mean = total.deviation / max(1, total.steps)
    return Divergence(
        step=step,
        quantity=name.removeprefix(prefix),
        runtime=1.0 + mean,
        eager=1.0,
        error=abs(mean),
        tolerance=total.limit,
    )
