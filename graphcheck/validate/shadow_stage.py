"""Shadow execution as a stage of `validate`: which instructions, and what is told of them.

The program is recorded in a run of its own, after the plain one: by a second session of the
program that starts each recorded step from a copy of the memory. So neither the plan nor a result
can change, and that is checked: the losses must be those of the plain run, to the bit.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphcheck.counted import counted
from graphcheck.errors import UsageError
from graphcheck.runtime.lower import Instruction, Lowered
from graphcheck.runtime.stream import Take
from graphcheck.runtime.types import InstructionDump, RunFailure, Trace, TrainRequest
from graphcheck.validate.emitted import dump_sizes, loss_instruction
from graphcheck.validate.ladder import Ladder
from graphcheck.validate.random_ops import random_instructions
from graphcheck.validate.reason import locate
from graphcheck.validate.reproducer import write_reproducer
from graphcheck.validate.shadow import Shadower, selected
from graphcheck.validate.types import Shadow
from graphcheck.worker import progress

__all__ = ["ShadowStage", "Stream", "Train"]

_CHUNK_BYTES = 256 << 20
"""What one pass may dump where a device cannot be read from while it runs."""

Train = Callable[[TrainRequest], Trace]
Stream = Callable[[TrainRequest, Take], Trace]


@dataclass
class _Recorded:
    """What the recorded run gave beside its instructions."""

    trace: Trace = field(default_factory=Trace)
    losses: dict[int, float] = field(default_factory=dict)
    """The loss of the recorded pass itself, by step."""
    instructions: set[tuple[int, int]] = field(default_factory=set)


class ShadowStage:
    """Runs instructions again in eager; writes its stage to `ladder`, what is left to `notes`.

    `stream` runs a request and hands over each dumped instruction while the device runs; without
    it, `train` is called for one range of instructions after the other. `reproducers` is a folder
    for the wrong ones; `ops` and `modules` are glob patterns that choose.
    """

    def __init__(
        self,
        train: Train,
        ladder: Ladder,
        notes: list[str],
        *,
        stream: Stream | None = None,
        reproducers: Path | None = None,
        ops: Sequence[str] = (),
        modules: Sequence[str] = (),
    ) -> None:
        self.train = train
        self.ladder = ladder
        self.notes = notes
        self.stream = stream
        self.reproducers = reproducers
        self.ops = tuple(ops)
        self.modules = tuple(modules)

    def of_step(self, request: TrainRequest, lowered: Lowered, step: int) -> Shadow | None:
        """All instructions of a step; None, with a stage that says why, where there is no dump."""
        return self.of_steps(request, lowered, (step,), None)

    def of_steps(
        self,
        request: TrainRequest,
        lowered: Lowered,
        steps: Sequence[int],
        plain: Trace | None,
    ) -> Shadow | None:
        """The chosen instructions of these steps, all by default.

        `plain` is the run without recording, whose losses this one must give again. Raises
        UsageError when the patterns choose nothing.
        """
        start = time.monotonic()
        chosen = self._chosen(lowered)
        told = " and ".join(map(str, steps))
        progress(f"running the instructions of step {told} in eager PyTorch")
        shadower = Shadower(lowered, lambda judged: write_reproducer(judged, request, self))
        recorded = self._record(request, lowered, steps, chosen, shadower)
        if not recorded.instructions:
            failure = recorded.trace.failure
            self.ladder.skipped("shadow", failure.message if failure else "the device gave no dump")
            return None
        changed = self._changed(recorded, lowered, plain)
        self._unseen(shadower.result, recorded, lowered, chosen)
        seconds = time.monotonic() - start
        self._tell(shadower.result, seconds, recorded.trace.failure, changed)
        return shadower.result

    def of(self, lowered: Lowered, dump: Sequence[InstructionDump], step: int = 0) -> Shadow:
        """The instructions of a dump."""
        shadower = Shadower(lowered)
        for record in dump:
            shadower.take(record, step)
        self._tell(shadower.result, 0.0, None, "")
        return shadower.result

    def _chosen(self, lowered: Lowered) -> tuple[Instruction, ...]:
        chosen = selected(lowered, self.ops, self.modules)
        if not chosen:
            given = [f"--shadow-op {glob}" for glob in self.ops]
            given += [f"--shadow-module {glob}" for glob in self.modules]
            has = sorted({i.op for i in lowered.instructions})[:8] if self.ops else []
            if self.modules:
                has += sorted({i.source.module for i in lowered.instructions} - {""})[:8]
            raise UsageError(
                f"no instruction of the program fits {' '.join(given)}",
                f"it has: {', '.join(has)}, ...",
            )
        return chosen

    def _record(
        self,
        request: TrainRequest,
        lowered: Lowered,
        steps: Sequence[int],
        chosen: Sequence[Instruction],
        shadower: Shadower,
    ) -> _Recorded:
        recorded = _Recorded()
        loss = loss_instruction(lowered)
        every = len(chosen) == len(lowered.instructions)

        def take(record: InstructionDump) -> None:
            recorded.instructions.add((record.step, record.instruction))
            if record.instruction == loss and record.outputs:
                recorded.losses[record.step] = float(record.outputs[0].array.reshape(-1)[0])
            shadower.take(record)

        wanted = replace(
            request,
            steps=max(steps) + 1,
            dump_step=steps[0],
            dump_steps=tuple(steps[1:]),
            dump_only=() if every else tuple(instruction.index for instruction in chosen),
            detect_stale=False,
            record=False,
        )
        if self.stream is not None:
            recorded.trace = self.stream(wanted, take)
            return recorded
        for part in _parts(chosen, dump_sizes(lowered), len(steps)):
            whole = len(part) == len(lowered.instructions)
            recorded.trace = self.train(replace(wanted, dump_only=() if whole else part))
            for record in recorded.trace.dump:
                take(record)
            if recorded.trace.failure is not None:
                break
        recorded.trace = replace(recorded.trace, dump=())
        return recorded

    def _changed(self, recorded: _Recorded, lowered: Lowered, plain: Trace | None) -> str:
        """How recording changed the run, "" if it did not."""
        if plain is None:
            return ""
        if random_instructions(lowered):
            self.notes.append(
                "shadow execution: whether recording changes the results is NOT CHECKED, the "
                "program draws random numbers"
            )
            return ""
        for step, (one, other) in enumerate(zip(plain.steps, recorded.trace.steps, strict=False)):
            if _bits(one.loss) != _bits(other.loss):
                return f"loss {other.loss!r} at step {step}, {one.loss!r} without recording"
            inside = recorded.losses.get(step)
            if inside is not None and _bits(inside) != _bits(one.loss):
                return f"loss {inside!r} in the recorded pass of step {step}, {one.loss!r} in plain"
        return ""

    def _unseen(
        self,
        result: Shadow,
        recorded: _Recorded,
        lowered: Lowered,
        chosen: Sequence[Instruction],
    ) -> None:
        """Instructions that call no kernel, or were not reached."""
        seen = {index for _, index in recorded.instructions}
        for instruction in chosen:
            if instruction.index in seen or instruction.op in ("MoveCall", "FreeCall"):
                continue
            if instruction.op in ("JumpFalseCall",):
                continue
            why = "a delegate" if instruction.op == "DelegateCall" else "it was not recorded"
            result.unchecked.append((instruction.index, instruction.op, why))

    def _tell(
        self, shadowed: Shadow, seconds: float, failure: RunFailure | None, changed: str
    ) -> None:
        left = f", {len(shadowed.unchecked)} NOT CHECKED" if shadowed.unchecked else ""
        for index, op, why in shadowed.unchecked[:5]:
            self.notes.append(f"shadow execution: instruction {index} ({op}) NOT CHECKED, {why}")
        decided: dict[tuple[int, str], int] = {}
        for index, op, count in shadowed.ties:
            decided[index, op] = decided.get((index, op), 0) + count
        for (index, op), count in list(decided.items())[:5]:
            self.notes.append(
                f"RULE CHANGE: instruction {index} ({op}) decides {count} "
                f"{'ties' if count > 1 else 'tie'} in another way than eager, which is no error"
            )
        coarse = dict.fromkeys(shadowed.coarse)
        for index, op in list(coarse)[:5]:
            self.notes.append(
                f"shadow execution: instruction {index} ({op}) gives a float64 result with "
                "float32's digits, which a model that trains in a shorter type does not notice"
            )
        right = f"{counted(shadowed.checked, 'instruction')} right"
        if shadowed.wrong:
            told = ", ".join(
                f"{w.instruction} {w.op}{locate(w.module, w.source)}" for w in shadowed.wrong[:4]
            )
            more = f" and {len(shadowed.wrong) - 4} more" if len(shadowed.wrong) > 4 else ""
            detail = f"wrong from the same inputs: {told}{more}{left}"
            self.ladder.failed("shadow", detail, seconds)
        elif changed:
            self.ladder.failed("shadow", f"recording changes the run: {changed}", seconds)
        elif failure is not None:
            detail = f"{right}{left}, then {failure.message}"
            self.ladder.skipped("shadow", detail, seconds)
        else:
            detail = f"{right}{left}"
            self.ladder.passed("shadow", seconds, detail)


def _bits(value: float) -> bytes:
    # One NaN is as good as another.
    return b"" if value != value else struct.pack("<d", value)


def _parts(
    chosen: Sequence[Instruction], sizes: dict[int, int], steps: int
) -> Iterator[tuple[int, ...]]:
    """Ranges of instructions whose dumps take about `_CHUNK_BYTES` each."""
    part: list[int] = []
    total = 0
    for instruction in chosen:
        size = sizes.get(instruction.index, 0) * steps
        if part and total + size > _CHUNK_BYTES:
            yield tuple(part)
            part, total = [], 0
        part.append(instruction.index)
        total += size
    if part:
        yield tuple(part)
