"""Shadow execution: each instruction again in eager PyTorch, on the inputs it had in the runtime.

A wrong kernel shows at its own instruction, with no error carried over from before. Every entry of
a result is held to what rounding explains (`validate.shadow_tolerance`), indices of picked values
to the choices that are admissible (`validate.ties`), random instructions to the law of their draw
(`validate.shadow_random`). An instruction that wrote into its inputs, or beside its outputs, is
wrong whatever it computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from graphcheck.runtime.lower import Instruction, Lowered, kernel_nodes
from graphcheck.runtime.types import InstructionDump, TensorData
from graphcheck.validate.emitted import loss_instruction, tensor_of
from graphcheck.validate.noise import op_name
from graphcheck.validate.reason import place
from graphcheck.validate.shadow_eager import Replay, functional_tags, given_arguments
from graphcheck.validate.shadow_random import random_fault
from graphcheck.validate.shadow_tolerance import Bounds, is_exact
from graphcheck.validate.ties.admissible import admissible_gradient
from graphcheck.validate.ties.picks import is_pick, wrong_picks
from graphcheck.validate.types import Shadow, WrongInstruction

__all__ = ["Fault", "Judged", "Shadower", "selected", "shadow"]

_OPEN = ("empty", "new_empty", "_empty")
_POOLS_BACKWARD = ("max_pool2d_with_indices_backward", "adaptive_max_pool2d_backward")
_VIEWS = ("executorch_prim::et_view",)


@dataclass(frozen=True)
class Fault:
    """Where a result is off by more than rounding: the worst entry, and how many there are.

    `error` and `tolerance` are absolute, `scale` is the largest entry of the result.
    """

    output: int
    index: tuple[int, ...]
    observed: float
    expected: float
    error: float
    tolerance: float
    scale: float
    count: int
    size: int


@dataclass(frozen=True)
class Judged:
    """A wrong instruction with what a reproducer of it needs; `bounds` is None without a replay."""

    wrong: WrongInstruction
    record: InstructionDump
    bounds: Bounds | None

    @property
    def is_exact(self) -> bool:
        """Whether the op moves or picks values only."""
        return self.bounds is None or is_exact(self.bounds.replay.target)

    def is_pick(self, output: int) -> bool:
        """Whether that output holds indices of picked values."""
        if self.bounds is None or self.bounds.native[output] is None:
            return False
        return is_pick(self.bounds.name, output)


def shadow(lowered: Lowered, dump: Iterable[InstructionDump], step: int | None = None) -> Shadow:
    """Check dumped instructions against eager; `step` is told in place of that of the dump."""
    shadower = Shadower(lowered)
    for record in dump:
        shadower.take(record, step)
    return shadower.result


class Shadower:
    """Takes dumped instructions one by one; `result` is what was found so far.

    `found` is called with each wrong instruction, the first time it is wrong, and may give back
    another text for it.
    """

    def __init__(
        self,
        lowered: Lowered,
        found: Callable[[Judged], WrongInstruction] = lambda judged: judged.wrong,
    ) -> None:
        self.result = Shadow()
        self._nodes = kernel_nodes(lowered.emitted)
        self._places = {instruction.index: instruction for instruction in lowered.instructions}
        self._wide = _trains_in_float64(lowered)
        self._found = found
        self._told: set[int] = set()

    def take(self, record: InstructionDump, step: int | None = None) -> None:
        """Check one instruction."""
        known = self._places.get(record.instruction)
        if record.op.startswith(_VIEWS) and known is not None:
            self._view(record, known, record.step if step is None else step)
            return
        if known is None or known.op != record.op or record.instruction not in self._nodes:
            self._leave(record, "its node is not known")
            return
        node = self._nodes[record.instruction]
        self._check(record, node, known, record.step if step is None else step)

    def _leave(self, record: InstructionDump, why: str) -> None:
        entry = (record.instruction, record.op, why)
        if entry not in self.result.unchecked:
            self.result.unchecked.append(entry)

    def _view(self, record: InstructionDump, known: Instruction, step: int) -> None:
        import numpy

        given, made = record.arguments[0], record.outputs[0]
        assert isinstance(given, TensorData)
        self.result.checked += 1
        if numpy.array_equal(given.array.reshape(-1), made.array.reshape(-1), equal_nan=True):
            return
        self._report(record, known, step, None, "is a view of something else than its input")

    def _check(self, record: InstructionDump, node: Any, known: Instruction, step: int) -> None:
        import torch

        touched = _touched(node, record)
        if op_name(node.target).startswith(_OPEN):
            self._leave(record, "leaves its memory as it was, by contract")
            return
        if touched:
            self.result.checked += 1
            self._report(record, known, step, None, touched)
            return
        given = given_arguments(node, record)
        tags = functional_tags(node)
        if torch.Tag.nondeterministic_seeded in tags:
            detail, error, tolerance = random_fault(record, given)
            if detail is None:
                self._leave(record, "it is random, and its draw obeys no rule known here")
                return
            self.result.checked += 1
            if detail:
                fault = Fault(0, (), math.nan, math.nan, error, tolerance, 1.0, 0, 0)
                self._report(record, known, step, fault, detail)
            return
        found: Fault | None
        try:
            replay = Replay(node, given, record)
            bounds = Bounds(replay, replay.native(), torch.Tag.pointwise in tags)
            found, ties = _fault(bounds, record)
            if found is not None and not self._wide and _is_float64(record, found.output):
                coarse = Bounds(replay, bounds.native, bounds.pointwise, coarse=True)
                if _fault(coarse, record)[0] is None:
                    self.result.coarse.append((record.instruction, record.op))
                    found = None
        except Exception as error:
            self._leave(record, f"eager cannot run it alone: {type(error).__name__}")
            return
        self.result.checked += 1
        if found is not None:
            self._report(record, known, step, found, "", bounds)
        elif ties:
            self.result.ties.append((record.instruction, record.op, ties))

    def _report(
        self,
        record: InstructionDump,
        known: Instruction,
        step: int,
        fault: Fault | None,
        detail: str,
        bounds: Bounds | None = None,
    ) -> None:
        if record.instruction in self._told:
            return
        self._told.add(record.instruction)
        wrong = _wrong(record, known, step, fault, detail)
        self.result.wrong.append(self._found(Judged(wrong, record, bounds)))


def _trains_in_float64(lowered: Lowered) -> bool:
    """Whether the loss is float64; also where it is not known what it is."""
    import torch

    loss = loss_instruction(lowered)
    node = None if loss is None else kernel_nodes(lowered.emitted).get(loss)
    value = None if node is None else node.meta.get("val")
    value = value[0] if isinstance(value, (list, tuple)) and value else value
    return not isinstance(value, torch.Tensor) or value.dtype == torch.float64


def _is_float64(record: InstructionDump, output: int) -> bool:
    return record.outputs[output].dtype == "float64"


def _touched(node: Any, record: InstructionDump) -> str:
    """What an instruction wrote that it must not write, "" if nothing."""
    if record.spoiled:
        arguments = node.target._schema.arguments
        names = [arguments[i].name if i < len(arguments) else str(i) for i in record.spoiled]
        return f"writes into its input {', '.join(names)}"
    return "writes beside its output" if record.beside else ""


def _fault(bounds: Bounds, record: InstructionDump) -> tuple[Fault | None, int]:
    """The first result that is off by more than rounding; how many ties were decided otherwise."""
    decided = 0
    exact_op = is_exact(bounds.replay.target)
    for index, (output, right) in enumerate(zip(record.outputs, bounds.native, strict=True)):
        if right is None:
            continue
        made = tensor_of(output)
        if is_pick(bounds.name, index):
            bad = wrong_picks(bounds, made, [tensor_of(o) for o in record.outputs])
            tolerance: Any = 0.0
            decided += 0 if made.shape != right.shape else int((made != right).sum())
        else:
            bad, tolerance = _bad(bounds, index, made, exact_op=exact_op)
        if bad is not None and bounds.name in _POOLS_BACKWARD and made.shape == right.shape:
            ties = admissible_gradient(bounds.replay.given, made, bad, tolerance)
            decided += ties or 0
            bad = bad if ties is None else None
        if bad is not None:
            return _worst(index, made, right, bad, tolerance), 0
    return None, decided


def _bad(bounds: Bounds, index: int, made: Any, *, exact_op: bool) -> tuple[Any, Any]:
    """Which entries are wrong (None if none are), and the tolerance of each."""
    import torch

    right = bounds.native[index]
    if made.shape != right.shape:
        return torch.ones_like(made, dtype=torch.bool), 0.0
    if torch.equal(made, right):
        return None, 0.0
    same = (made == right) | ((made != made) & (right != right))
    if exact_op or not right.dtype.is_floating_point:
        return (None if bool(same.all()) else ~same), 0.0
    off = (made.double() - right.double()).abs_()
    fine = same | (off <= bounds.first(index))
    if bool(fine.all()):
        return None, 0.0
    exact = bounds.exact(index)
    fine |= made == exact.to(right.dtype)
    for more in (False, True):
        tolerance = bounds.full(index, more=more)
        fine |= (off <= tolerance) | ((made.double() - exact).abs_() <= tolerance)
        if bool(fine.all()):
            return None, 0.0
    return ~fine, tolerance


def _worst(index: int, made: Any, right: Any, bad: Any, tolerance: Any) -> Fault:
    """The wrong entry of the largest error; one that is not a number comes first."""
    import torch

    if made.shape != right.shape:
        return Fault(index, (), math.nan, math.nan, math.inf, 0.0, 1.0, made.numel(), made.numel())
    off = (made.double() - right.double()).abs()
    off = torch.where(bad, torch.nan_to_num(off, nan=math.inf), -1.0)
    place_of_worst = int(off.argmax()) if off.numel() else 0
    at = tuple(int(i) for i in torch.unravel_index(torch.tensor(place_of_worst), made.shape))
    observed, expected = float(made[at]), float(right[at])
    finite = right.double()[torch.isfinite(right.double())].abs()
    return Fault(
        output=index,
        index=at,
        observed=observed,
        expected=expected,
        error=abs(observed - expected),
        tolerance=float(tolerance[at]) if hasattr(tolerance, "shape") else float(tolerance),
        scale=float(finite.max()) if finite.numel() else 0.0,
        count=int(bad.sum()),
        size=made.numel(),
    )


def _wrong(
    record: InstructionDump, known: Instruction, step: int, fault: Fault | None, detail: str
) -> WrongInstruction:
    wrong = WrongInstruction(
        instruction=record.instruction,
        op=record.op,
        module=known.source.module,
        source=place(known.source),
        step=step,
        detail=detail,
    )
    if fault is None:
        return wrong
    from dataclasses import replace

    scale = fault.scale or 1.0
    return replace(
        wrong,
        error=fault.error / scale,
        tolerance=fault.tolerance / scale,
        output=fault.output,
        index=fault.index,
        observed=fault.observed,
        expected=fault.expected,
        count=fault.count,
        size=fault.size,
    )


def selected(
    lowered: Lowered, ops: Sequence[str], modules: Sequence[str]
) -> tuple[Instruction, ...]:
    """The instructions of these ops and modules, by glob pattern; all where there is no pattern.

    An op is named as in the registry (`aten::mm.out`), with or without namespace and overload.
    """
    from fnmatch import fnmatchcase

    def fits(instruction: Instruction) -> bool:
        plain = instruction.op.partition("::")[2]
        names = {instruction.op, plain, plain.partition(".")[0]}
        return (not ops or any(fnmatchcase(n, glob) for n in names for glob in ops)) and (
            not modules or any(fnmatchcase(instruction.source.module, glob) for glob in modules)
        )

    return tuple(filter(fits, lowered.instructions))
