"""Step by step: what the runtime recorded against the oracle, locked and free running.

Errors are absolute differences, judged against the tolerance that rounding calls for
(`validate.noise`), and told relative to the largest entry of the quantity. Every comparison reads
`not (error <= tolerance)`, so that a NaN fails it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphcheck.graph.module_state import ModuleState
from graphcheck.runtime.types import StepRecord, Trace
from graphcheck.validate.measure import (
    LOSS,
    Error,
    judge_step,
    measure,
    relative,
    scale_of,
    scales_of,
    tolerance_of,
)
from graphcheck.validate.oracle import EagerStep, Oracle, Tolerances
from graphcheck.validate.types import Divergence
from graphcheck.validate.updates import Updates

__all__ = [
    "JUMP",
    "VISIBLE",
    "WIDE",
    "Comparison",
    "compare",
    "shifted_names",
]

VISIBLE = 1e-3
"""Two free-running loss curves have parted when they differ by more than this share of the loss,
and by more than the tolerances of all steps so far add up to: below, they are one line in any
picture of them."""
JUMP = 0.1
"""The same for a gradient, as a share of its largest entry, in two steps running. A gradient jumps
where a ReLU or a pool sits at a kink, so that weights which agree to a rounding error give slightly
different gradients for a step; each gradient by itself is judged locked, far more strictly."""

WIDE = 0.05
"""A gradient of which rounding alone can change more than this share of its largest entry is only
loosely compared, which is told."""

_FEW = range(2)
_MANY = range(2, 12)
"""Pairs of perturbed passes, at first and where an error is within `_NEAR` times the tolerance."""
_NEAR = 100.0


@dataclass
class Comparison:
    """What the comparison found.

    `eager_losses` are those of the free-running oracle, `locked_losses` those with the weights set
    to the runtime's. `locked_steps` counts the steps compared
    with the eager weights reset to the runtime's. `worst` is the worst relative error, locked, by
    parameter. `names_shifted` is set when the program's names belong to other tensors.
    """

    first_locked: Divergence | None = None
    first_free: Divergence | None = None
    worst: dict[str, float] = field(default_factory=dict)
    worst_loss: float = 0.0
    eager_losses: list[float] = field(default_factory=list)
    locked_losses: list[float] = field(default_factory=list)
    locked_steps: int = 0
    notes: list[str] = field(default_factory=list)
    names_shifted: bool = False
    told: str = ""
    """The sentence on the locked divergence, where its numbers need other words."""
    by_distribution: bool = False
    replayed: bool = False
    by_choice: bool = False
    """Eager took the choices of the runtime where ops met ties."""
    other_rule: bool = False
    """And some of them follow another rule, with which training takes another course."""
    lost: tuple[int, str, str] | None = None
    """The first step at which a gradient is NaN or infinite in eager itself, the parameter, and the
    backward function that makes it, where it is known."""
    tolerances: dict[str, float] = field(default_factory=dict)
    gradient_tolerances: dict[str, float] = field(default_factory=dict)
    """What `worst` is judged by, relative as it is, at the step where it is smallest."""


def compare(
    trace: Trace,
    locked: Oracle,
    free: Oracle | None,
    *,
    order: Sequence[str] = (),
    prefix: str = "",
    seen: Sequence[StepRecord] = (),
) -> Comparison:
    """Compare a trace with eager training, locked and (with `free`) free running.

    Both oracles hold the weights the program was made with. `order` lists parameters in the
    order in which the backward pass makes their gradients: of several wrong ones the first is
    told. `prefix` is cut from names that are told. `seen` are loss and gradients to judge locked
    instead of those of the trace: of another pass from the same weights.
    """
    judge = _Judge(trace, locked, _complete(order, locked), prefix)
    result = judge.result
    judge.check_names()
    for index, record in enumerate(seen or trace.steps):
        if not judge.locked_step(index, record):
            break
    if result.first_locked is None:
        result.notes += _loosely(result.gradient_tolerances)
    locked.rest()
    if free is not None:
        judge.free_run(free)
        free.rest()
    return result


def _loosely(tolerances: Mapping[str, float]) -> list[str]:
    """A note on gradients that rounding alone can change by much: less is not seen there."""
    wide = {name: share for name, share in tolerances.items() if not (share <= WIDE)}
    if not wide:
        return []
    worst = max(wide, key=lambda name: wide[name])
    return [
        f"rounding alone can change {len(wide)} of {len(tolerances)} gradients by more than "
        f"{WIDE:.0%} of their largest entry in every step (that of {worst} by "
        f"{wide[worst]:.0%}): a smaller error there is NOT CHECKED by training; a larger batch "
        "narrows it, and --shadow checks each instruction by itself"
    ]


def _complete(order: Sequence[str], oracle: Oracle) -> list[str]:
    """Every trainable parameter once: those of `order`, then the rest from the last layer on."""
    known = [oracle.aliases[name] for name in order if name in oracle.aliases]
    return list(dict.fromkeys([*known, *reversed(oracle.trainable)]))


class _Judge:
    def __init__(self, trace: Trace, oracle: Oracle, order: list[str], prefix: str) -> None:
        self.trace = trace
        self.oracle = oracle
        self.order = order
        self.prefix = prefix
        self.result = Comparison()
        self.updates = Updates(oracle)
        self.smallest: dict[str, float] = {}
        """Smallest relative tolerance measured so far: an error below it needs no new measuring."""
        self.latest: Tolerances | None = None
        self.per_step: list[Tolerances] = []
        """Tolerances by step, as far as compared locked; they add up along the free run."""

    def told(self, name: str) -> str:
        return name.removeprefix(self.prefix)

    # Names

    def check_names(self) -> None:
        """The recorded parameters of step 0 must be the weights the program was made with."""
        note = shifted_names(self.trace, self.oracle, self.told)
        if note:
            self.result.names_shifted = True
            self.result.notes.append(f"{note}; compared locked at step 0 alone")

    # Locked

    def locked_step(self, index: int, record: StepRecord) -> bool:
        """Compare one step with the eager weights set to the runtime's; False to stop."""
        import numpy

        if index and (self.result.names_shifted or not record.parameters):
            return False
        if index:
            arrays = record.parameters.values()
            if not all(numpy.isfinite(numpy.asarray(array)).all() for array in arrays):
                self.result.notes.append(
                    f"the runtime's weights are not finite from step {index} on: "
                    "nothing to compare locked after it"
                )
                return False
            self.oracle.load(record.parameters)
        before = self.oracle.now()
        eager = self.oracle.step(index)
        self.result.locked_losses.append(eager.loss)
        if self.result.lost is None:
            self.result.lost = self._lost(index, eager, before)
        gradients = self._by_parameter(record.gradients)
        self._unknown_names(index, record.gradients)
        errors = {LOSS: measure(record.loss, eager.loss)}
        for name in self.order:
            if name in eager.gradients:
                errors[name] = measure(gradients.get(name), eager.gradients[name])
        self._judge_errors(index, eager, errors, before)
        self._judge_update(index)
        self.result.locked_steps = index + 1
        return True

    def _lost(
        self, index: int, eager: EagerStep, before: ModuleState
    ) -> tuple[int, str, str] | None:
        import numpy

        for name in self.order:
            if not numpy.isfinite(eager.gradients.get(name, 0.0)).all():
                with _restored(self.oracle, before):
                    return index, self.told(name), self.oracle.maker_of_nan(index)
        return None

    def _by_parameter(self, gradients: Mapping[str, Any]) -> dict[str, Any]:
        aliases = self.oracle.aliases
        return {aliases[name]: array for name, array in gradients.items() if name in aliases}

    def _unknown_names(self, index: int, gradients: Mapping[str, Any]) -> None:
        unknown = [name for name in gradients if name not in self.oracle.aliases]
        if unknown and index == 0:
            self.result.notes.append(
                f"the program names gradients the module does not have: {', '.join(unknown)}"
            )

    def _judge_errors(
        self, index: int, eager: EagerStep, errors: Mapping[str, Error], before: ModuleState
    ) -> None:
        result = self.result
        quick = all(
            error.absolute <= self.smallest.get(name, -1.0) * error.scale
            for name, error in errors.items()
        )
        if result.first_locked is None and not quick:
            with _restored(self.oracle, before):
                self.latest = self._measured(index, eager, errors)
        tolerances = self.latest
        self.per_step.append(tolerances or Tolerances(0.0))
        first, shares = judge_step(index, errors, tolerances or Tolerances(0.0), self.told)
        scales = scales_of(errors, tolerances)
        for name, error in errors.items():
            absolute = tolerance_of(tolerances, name)
            if not quick and result.first_locked is None:
                share = relative(absolute, error.scale)
                if name != LOSS:
                    here = relative(absolute, scales[name])
                    known = result.gradient_tolerances.get(self.told(name), math.inf)
                    result.gradient_tolerances[self.told(name)] = min(known, here)
                self.smallest[name] = min(self.smallest.get(name, math.inf), share)
                result.tolerances[self.told(name)] = self.smallest[name]
            if name == LOSS:
                result.worst_loss = _worse(result.worst_loss, shares[LOSS])
            else:
                known = result.worst.get(self.told(name), 0.0)
                result.worst[self.told(name)] = _worse(known, shares[self.told(name)])
        if not quick and result.first_locked is None:
            result.first_locked = first

    def _judge_update(self, index: int) -> None:
        if self.result.names_shifted or self.result.first_locked is not None:
            return
        found = self.updates.first_wrong(self.trace, index, self.told)
        if found is not None:
            self.result.first_locked, self.result.told = found

    def _measured(self, index: int, eager: EagerStep, errors: Mapping[str, Error]) -> Tolerances:
        """Tolerances of this step; where an error is just above them, from more draws of noise.

        A few draws may all be small by chance, most of all for a scalar such as the loss.
        """
        tolerances = self.oracle.tolerances(index, eager, pairs=_FEW)
        above = [
            error.absolute / max(tolerance_of(tolerances, name), 1e-300)
            for name, error in errors.items()
            if not (error.absolute <= tolerance_of(tolerances, name))
        ]
        if above and max(above) < _NEAR:
            tolerances = tolerances.merged(self.oracle.tolerances(index, eager, pairs=_MANY))
        return tolerances

    # Free

    def free_run(self, oracle: Oracle) -> None:
        """Train in eager on its own and find the first step at which the curves have parted."""
        total: dict[str, float] = {}
        before: dict[str, Divergence] = {}
        for index, record in enumerate(self.trace.steps):
            eager = oracle.step(index, update=True)
            self.result.eager_losses.append(eager.loss)
            if self.result.first_free is not None:
                continue
            gradients = self._by_parameter(record.gradients)
            errors = {LOSS: measure(record.loss, eager.loss)}
            if record.gradients:
                for name in self.order:
                    if name in eager.gradients:
                        errors[name] = measure(gradients.get(name), eager.gradients[name])
            largest = max(
                (error.scale for name, error in errors.items() if name != LOSS), default=0.0
            )
            apart: dict[str, Divergence] = {}
            for name, error in errors.items():
                here = self.per_step[index] if index < len(self.per_step) else self.latest
                total[name] = total.get(name, 0.0) + tolerance_of(here, name)
                scale = scale_of(error, total[name], 0.0 if name == LOSS else largest)
                limit = max(total[name], (VISIBLE if name == LOSS else JUMP) * scale)
                if not (error.absolute <= limit):
                    apart[name] = Divergence(
                        step=index,
                        quantity=self.told(name),
                        runtime=error.runtime,
                        eager=error.eager,
                        error=relative(error.absolute, scale),
                        tolerance=relative(limit, scale),
                    )
            lasting = [before[name] for name in before if name in apart]
            if not lasting and (LOSS in apart or len(self.trace.steps) == 1):
                lasting = list(apart.values())
            self.result.first_free = next(iter(lasting), None)
            before = apart


def shifted_names(trace: Trace, oracle: Oracle, told: Callable[[str], str]) -> str:
    """Which names of the program's training metadata belong to other tensors; "" if none does.

    `oracle` must still hold the weights the program was made with.
    """
    import numpy

    if not trace.steps or not trace.steps[0].parameters:
        return ""
    initial = oracle.state()
    recorded = trace.steps[0].parameters
    wrong: list[str] = []
    for name, array in recorded.items():
        own = oracle.aliases.get(name)
        if own is not None and _same(numpy.asarray(array), initial[own]):
            continue
        actual = next((n for n, a in initial.items() if _same(numpy.asarray(array), a)), None)
        what = f"the values of {told(actual)}" if actual else "values of no parameter"
        wrong.append(f"{told(name)} holds {what}")
    known = {oracle.aliases.get(name) for name in recorded}
    missing = [told(name) for name in oracle.trainable if name not in known]
    if not wrong and not missing:
        return ""
    listed = "; ".join([*wrong[:4], *(f"{name} is missing" for name in missing[:4])])
    return f"the program's training metadata gives parameters the names of others: {listed}"


def _worse(old: float, new: float) -> float:
    return old if math.isnan(old) or new <= old else new


def _same(left: Any, right: Any) -> bool:
    import numpy

    return left.shape == right.shape and numpy.array_equal(left, right, equal_nan=True)


class _restored:
    """Inside, the oracle's module has an earlier state; after, the one it had on entry."""

    def __init__(self, oracle: Oracle, state: ModuleState) -> None:
        self.oracle = oracle
        self.state = state

    def __enter__(self) -> None:
        self.kept = self.oracle.now()
        self.state.put()

    def __exit__(self, *_: object) -> None:
        self.kept.put()
