"""Shadow execution as a stage of `validate`: which instructions, and what is told of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from graphcheck.runtime.lower import Lowered
from graphcheck.runtime.types import InstructionDump, Trace, TrainRequest
from graphcheck.validate.emitted import dump_bytes
from graphcheck.validate.ladder import Ladder
from graphcheck.validate.reason import locate
from graphcheck.validate.shadow import shadow
from graphcheck.validate.types import Shadow
from graphcheck.worker import progress

__all__ = ["ShadowStage", "Train"]

_DUMP_LIMIT = 2**30
"""Bytes a dump of all instructions may take."""

Train = Callable[[TrainRequest], Trace]


class ShadowStage:
    """Runs instructions again in eager; writes its stage to `ladder`, what is left to `notes`."""

    def __init__(self, train: Train, ladder: Ladder, notes: list[str]) -> None:
        self.train = train
        self.ladder = ladder
        self.notes = notes

    def of_step(self, request: TrainRequest, lowered: Lowered, step: int) -> Shadow | None:
        """All instructions of a step; None, with a stage that says why, where there is no dump."""
        progress(f"running the instructions of step {step} in eager PyTorch")
        dump = self._dump(request, lowered, step)
        if isinstance(dump, str):
            self.ladder.skipped("shadow", dump)
            return None
        return self.of(lowered, dump, step)

    def of(self, lowered: Lowered, dump: Sequence[InstructionDump], step: int = 0) -> Shadow:
        """The instructions of a dump."""
        shadowed = shadow(lowered, dump, step)
        left = f", {len(shadowed.unchecked)} NOT CHECKED" if shadowed.unchecked else ""
        for index, op, why in shadowed.unchecked[:5]:
            self.notes.append(f"shadow execution: instruction {index} ({op}) NOT CHECKED, {why}")
        if shadowed.wrong:
            told = ", ".join(
                f"{w.instruction} {w.op}{locate(w.module, w.source)}" for w in shadowed.wrong[:4]
            )
            more = f" and {len(shadowed.wrong) - 4} more" if len(shadowed.wrong) > 4 else ""
            self.ladder.failed("shadow", f"wrong from the same inputs: {told}{more}{left}")
        else:
            self.ladder.passed("shadow", detail=f"{shadowed.checked} instructions right{left}")
        return shadowed

    def _dump(
        self, request: TrainRequest, lowered: Lowered, step: int
    ) -> tuple[InstructionDump, ...] | str:
        """All instructions of a step as the runtime ran them, or why there is no such thing."""
        size = dump_bytes(lowered)
        if size > _DUMP_LIMIT:
            return f"NOT CHECKED: a dump of all instructions takes {size / 2**30:.1f} GiB"
        trace = self.train(
            replace(
                request,
                steps=step + 1,
                dump_step=step,
                dump_only=(),
                detect_stale=False,
                record=False,
            )
        )
        if trace.dump:
            return trace.dump
        return trace.failure.message if trace.failure else "the device gave no dump"
