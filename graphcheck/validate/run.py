"""The whole of `validate`: lower, train in the runtime and in eager, compare, tell.

A ladder of stages, each of which passes, fails or is not run with a reason. A failure of a stage
is an answer (verdict `not run`), never an exception; only what makes an answer impossible, such as
a missing compiler, is raised.
"""

from __future__ import annotations

import math
import re
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from graphcheck.counted import counted
from graphcheck.errors import ModelError, UsageError
from graphcheck.options import ValidateOptions
from graphcheck.runtime.lower import Instruction, Lowered, lower
from graphcheck.runtime.types import EVERY_STEP, Trace, TrainRequest
from graphcheck.validate.batches import Batches, device_batches, eager_batches
from graphcheck.validate.compare import Comparison, compare
from graphcheck.validate.devices import Attached, open_device, validate_on
from graphcheck.validate.figures import installed_versions, overhead
from graphcheck.validate.half_eps import half_eps
from graphcheck.validate.input_stage import with_inputs
from graphcheck.validate.ladder import Ladder
from graphcheck.validate.left_out import left_out
from graphcheck.validate.optimizer import settings_of, told_optimizer
from graphcheck.validate.oracle import Oracle
from graphcheck.validate.random_ops import (
    blame_instruction,
    compare_statistics,
    random_instructions,
    told_random,
)
from graphcheck.validate.reason import (
    gradient_order,
    locate,
    lost_in_eager,
    stale_outputs,
    told_divergence,
    told_failure,
    told_verdict,
)
from graphcheck.validate.replay import instructions_to_dump, replay
from graphcheck.validate.shadow_stage import ShadowStage, Stream, Train
from graphcheck.validate.shadow_verdict import shadow_all, with_shadow
from graphcheck.validate.ties.explain import explain_by_ties
from graphcheck.validate.types import Divergence, Shadow, StaleOutput, Verdict
from graphcheck.worker import progress
from graphcheck.workload.types import Workload

__all__ = ["validate_workload"]


def validate_workload(
    workload: Workload,
    options: ValidateOptions | None = None,
    *,
    lowered: Lowered | None = None,
    train: Train | None = None,
) -> Verdict:
    """Train `workload` in the runtime and in eager PyTorch from the same weights, and compare.

    `lowered` is what to run instead of the stock lowering of the workload (a rewritten program);
    its parameter names must be those of the module. `train` stands for the device's own.

    Raises UsageError for an unknown device or optimizer and DeviceError when the runtime or a
    compiler is missing.
    """
    options = options or ValidateOptions(target=workload.target)
    if options.steps < 1:
        raise UsageError(f"{options.steps} steps cannot be trained", "use --steps 1 or more")
    if train is not None:
        return _Run(workload, options, train).verdict(lowered)
    attached = [Attached(open_device(name, options), options) for name in dict.fromkeys(options.on)]
    # All are made before anything is traced, which may change the module.
    runs = [_Run(workload, options, one.train, one.stream) for one in attached]
    program = lowered or lower(workload, strict=options.strict)
    return validate_on(
        attached, [partial(run.with_inputs, program) for run in runs], required=options.require
    )


class _Run:
    def __init__(
        self,
        workload: Workload,
        options: ValidateOptions,
        train: Train,
        stream: Stream | None = None,
    ) -> None:
        self.workload = workload
        self.options = options
        self.train = train
        self.ladder = Ladder()
        self.notes = list(half_eps(workload, options))
        self.shadow = ShadowStage(
            train,
            self.ladder,
            self.notes,
            stream=stream,
            reproducers=Path(options.reproducers) if options.reproducers else None,
            ops=options.shadow_ops,
            modules=options.shadow_modules,
        )
        self.overhead: dict[str, float] = {}
        self.settings = settings_of(options)
        # Weights as they are now: neither tracing nor training may change what eager starts from.
        self.locked = self._oracle()
        self.free = self._oracle()

    def _oracle(self) -> Oracle:
        return Oracle(
            self.workload,
            learning_rate=self.options.learning_rate,
            optimizer=self.options.optimizer,
            settings=self.settings,
            batches=eager_batches(self.workload),
        )

    def verdict(self, lowered: Lowered | None) -> Verdict:
        lowered = lowered or lower(self.workload, strict=self.options.strict)
        self.notes += lowered.notes
        for stage in lowered.stages:
            if stage.failure is None:
                self.ladder.passed(stage.name, stage.seconds, stage.detail)
            else:
                self.ladder.failed(stage.name, stage.failure.message, stage.seconds)
                if stage.failure.hint:
                    self.notes.append(stage.failure.hint)
        if lowered.program is None:
            reason = lowered.failure.message if lowered.failure else "there is no program"
            return self._not_run(reason)
        try:
            batches = device_batches(self.workload)
        except ModelError as error:
            self.ladder.failed("load", error.message)
            return self._not_run(error.message)
        with tempfile.TemporaryDirectory(prefix="graphcheck-") as folder:
            return self._judge(self.request(lowered, Path(folder), batches), lowered)

    def request(self, lowered: Lowered, folder: Path, batches: Batches) -> TrainRequest:
        """What the device is asked for, with the program written to `folder`."""
        program, weights = lowered.write(folder)
        return TrainRequest(
            program=program,
            weights=weights,
            batches=batches,
            steps=self.options.steps,
            learning_rate=self.options.learning_rate,
            optimizer=self.options.optimizer,
            settings=self.settings,
            detect_stale=True,
            kernel_libraries=tuple(Path(path) for path in self.options.kernel_libraries),
            timeout=self.options.timeout,
        )

    def with_inputs(self, lowered: Lowered) -> Verdict:
        """The verdict, and after a right one what other inputs lead to."""
        verdict = self.verdict(lowered)
        if verdict.verdict not in ("match", "drift"):
            return verdict
        with tempfile.TemporaryDirectory(prefix="graphcheck-") as folder:
            request = self.request(lowered, Path(folder), device_batches(self.workload))
            return with_inputs(verdict, request, self.workload, self.train)

    def _not_run(self, reason: str, trace: Trace | None = None) -> Verdict:
        return self._answer("not run", reason, trace or Trace(), Comparison())

    def _judge(self, request: TrainRequest, lowered: Lowered) -> Verdict:
        progress(f"training {counted(self.options.steps, 'step')} in the runtime")
        start = time.monotonic()
        random = random_instructions(lowered)
        if random:
            needed = instructions_to_dump(lowered, random)
            request = replace(request, dump_step=EVERY_STEP, dump_only=needed)
        trace = self.train(request)
        seconds = time.monotonic() - start
        places = {instruction.index: instruction for instruction in lowered.instructions}
        self._runtime_stages(trace, places, seconds)
        stale = tuple(stale_outputs(trace, places))
        self._stale_stage(trace, stale)
        if not trace.steps:
            failure = trace.failure
            reason = told_failure(failure, places) if failure else "the runtime gave no step"
            return self._not_run(reason, trace)
        progress("training in eager PyTorch and comparing")
        start = time.monotonic()
        shadowed: Shadow | None = None
        if random:
            trace, comparison, shadowed = self._compare_random(request, lowered, trace, random)
        else:
            comparison = compare(
                trace,
                self.locked,
                self.free,
                order=gradient_order(lowered),
                prefix=self.workload.prefix,
            )
            comparison = self._other_memory(request, lowered, stale, comparison)
            if comparison.first_locked is None:
                self.ladder.skipped("shadow", "no step diverged")
            elif not self.options.shadow:
                shadowed = self.shadow.of_step(request, lowered, comparison.first_locked.step)
        compared = time.monotonic() - start
        if self.options.shadow:
            shadowed = shadow_all(
                self.shadow,
                request,
                lowered,
                trace,
                comparison,
                self.options.shadow_steps,
                self.workload.prefix,
            )
        if shadowed is not None and not shadowed.wrong and not stale and not random:
            comparison = explain_by_ties(
                self.train,
                request,
                lowered,
                self._oracle,
                trace,
                comparison,
                order=gradient_order(lowered),
                prefix=self.workload.prefix,
                stream=self.shadow.stream,
            )
        if lost := lost_in_eager(comparison):
            self.ladder.skipped("compare", lost, compared)
            answer = self._not_run(lost, trace)
            return answer if shadowed is None else with_shadow(answer, shadowed)
        self.notes += comparison.notes
        self.overhead = overhead(trace, seconds, compared)
        self.locked.rest()  # whatever ran last, the model is asked as it began
        lost_there = partial(left_out, self.workload, lowered)
        verdict, reason = told_verdict(
            comparison, trace, places, stale, self.options.steps, shadowed, lost_there
        )
        if verdict == "match":
            self.ladder.passed("compare", compared, counted(comparison.locked_steps, "step"))
        elif verdict == "not run":
            self.ladder.skipped("compare", reason, compared)
        else:
            self.ladder.failed("compare", reason, compared)
        answer = self._answer(verdict, reason, trace, comparison, stale)
        return answer if shadowed is None else with_shadow(answer, shadowed)

    def _compare_random(
        self,
        request: TrainRequest,
        lowered: Lowered,
        trace: Trace,
        random: tuple[Instruction, ...],
    ) -> tuple[Trace, Comparison, Shadow | None]:
        """Every step with the runtime's own draws replayed in eager, or else by distribution.

        The trace that comes back has the losses of the passes that were compared.
        """
        prefix = self.workload.prefix
        progress("replaying the random draws of the runtime in eager PyTorch")
        replayed = replay(
            lowered, trace, random, self.locked, order=gradient_order(lowered), prefix=prefix
        )
        comparison = replayed.comparison
        if comparison is not None and replayed.proves:
            told = told_random(random, comparison.locked_steps, exact=True)
            trace = replace(trace, steps=replayed.seen)
            if comparison.first_locked is not None:
                told_first = comparison.told or told_divergence(comparison.first_locked)
                comparison.told = f"with the same draws, {told_first}"
            shadowed = self._shadow_of_random(request, lowered, trace, comparison, random)
        else:
            why = replayed.why_not or "the mask is made in a way not known here"
            comparison = compare_statistics(trace, self._oracle(), prefix=prefix, progress=progress)
            told = told_random(random, comparison.locked_steps, exact=False, why=why)
            shadowed = self.shadow.of_step(request, lowered, 0)
        if shadowed is not None and comparison.first_locked is None:
            # A distribution, or a draw by itself, hides what an instruction seen to be wrong shows.
            blame_instruction(comparison, shadowed, lowered, prefix)
        if replayed.wrong_share and comparison.first_locked is None:
            comparison.first_locked = Divergence(0, "random draws", math.nan, math.nan, 1.0, 0.0)
            comparison.told = replayed.wrong_share
        self.notes.append(told)
        return trace, comparison, shadowed

    def _shadow_of_random(
        self,
        request: TrainRequest,
        lowered: Lowered,
        trace: Trace,
        comparison: Comparison,
        random: tuple[Instruction, ...],
    ) -> Shadow | None:
        """All instructions of a step that diverged; else the draws, which nothing else judges."""
        if comparison.first_locked is not None:
            return self.shadow.of_step(request, lowered, comparison.first_locked.step)
        drawing = {instruction.index for instruction in random}
        draws = [d for d in trace.dump if d.step == 0 and d.instruction in drawing]
        return self.shadow.of(lowered, draws)

    def _runtime_stages(self, trace: Trace, places: dict[int, Instruction], seconds: float) -> None:
        failure = trace.failure
        wanted = self.options.steps
        told = told_failure(failure, places) if failure else ""
        if failure and not trace.steps and not re.match(r"step", failure.stage):
            self.ladder.failed("load", told, seconds)
            return
        self.ladder.passed("load", detail=counted(trace.instructions, "instruction"))
        if not trace.steps:
            self.ladder.failed("step", told or "the runtime gave no step", seconds)
            return
        self.ladder.passed("step", trace.steps[0].seconds)
        if failure or len(trace.steps) < wanted:
            done = f"stopped after {len(trace.steps)} of {counted(wanted, 'step')}"
            self.ladder.failed("train", f"{done}: {told}" if told else done, seconds)
        else:
            self.ladder.passed("train", seconds, counted(wanted, "step"))

    def _stale_stage(self, trace: Trace, stale: tuple[StaleOutput, ...]) -> None:
        if not trace.stale_checked:
            self.ladder.skipped("stale", trace.stale_note or "the detector did not run")
            return
        for unchecked in trace.stale_unchecked:
            self.notes.append(
                f"stale outputs: instruction {unchecked.instruction} ({unchecked.op}) NOT CHECKED, "
                f"{unchecked.reason}"
            )
        roots = [output for output in stale if output.caused_by is None]
        if not roots:
            self.ladder.passed("stale", detail="every instruction writes all of its output")
            return
        told = ", ".join(f"{root.op}{locate(root.module, root.source)}" for root in roots)
        self.ladder.failed("stale", f"depends on what its memory held before: {told}")

    def _other_memory(
        self,
        request: TrainRequest,
        lowered: Lowered,
        stale: tuple[StaleOutput, ...],
        comparison: Comparison,
    ) -> Comparison:
        """Agreement with stale outputs may be luck: train again on memory full of junk."""
        if not stale or comparison.first_locked or comparison.first_free:
            return comparison
        progress("training again, on memory that is not clean")
        trace = self.train(replace(request, fill="junk", detect_stale=False))
        again = compare(
            trace,
            self._oracle(),
            self._oracle(),
            order=gradient_order(lowered),
            prefix=self.workload.prefix,
        )
        if again.first_locked is None and again.first_free is None:
            comparison.notes.append(
                "an instruction leaves part of its output unwritten, but training on memory full "
                "of junk agrees, too"
            )
            return comparison
        again.notes.append("agrees on memory full of zeros, parts on memory full of junk")
        again.eager_losses = comparison.eager_losses
        return again

    def _answer(
        self,
        verdict: str,
        reason: str,
        trace: Trace,
        comparison: Comparison,
        stale: tuple[StaleOutput, ...] = (),
    ) -> Verdict:
        return Verdict(
            target=self.workload.target or self.options.target,
            verdict=verdict,
            reason=reason,
            stages=self.ladder.stages(),
            steps=len(trace.steps),
            losses=tuple(record.loss for record in trace.steps),
            eager_losses=tuple(comparison.eager_losses),
            first_free=comparison.first_free,
            first_locked=comparison.first_locked,
            worst_gradient_errors=dict(comparison.worst),
            gradient_tolerances=dict(comparison.gradient_tolerances),
            stale=stale or tuple(stale_outputs(trace, {})),
            stale_checked=trace.stale_checked,
            notes=tuple(dict.fromkeys([*self.workload.guesses, *self.notes])),
            overhead=self.overhead,
            versions=installed_versions(),
            free_compared=not (
                comparison.by_distribution or comparison.replayed or comparison.other_rule
            ),
            optimizer=told_optimizer(
                self.options.optimizer, self.options.learning_rate, self.settings
            ),
        )
