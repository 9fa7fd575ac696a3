"""The runtime's own random draws, fed into eager: then a random model must agree entry by entry.

The draws come from a dump of each step, in order of execution; eager draws in the same order, for
the forward pass keeps its order through export. Where eager draws a mask (`bernoulli_`) and the
program a uniform number that it compares with a limit, the result of that comparison is the mask.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from graphcheck.errors import GraphcheckError, ModelError
from graphcheck.rewrite.apply import qualified_name
from graphcheck.rewrite.random import DRAWS, by_rewrite
from graphcheck.runtime.lower import Instruction, Lowered, kernel_nodes
from graphcheck.runtime.types import InstructionDump, StepRecord, Trace
from graphcheck.validate.compare import Comparison, compare, shifted_names
from graphcheck.validate.emitted import instructions_of_outputs, values_of_outputs
from graphcheck.validate.oracle import Oracle

__all__ = [
    "Draw",
    "ReplayError",
    "Replayed",
    "draws_of",
    "instructions_to_dump",
    "replay",
    "replay_mode",
]

_MASKS = ("bernoulli", "native_dropout")
_COMPARISONS = ("lt", "le", "gt", "ge")


class ReplayError(GraphcheckError):
    """The draws of the program cannot be those of eager: another number, shape or kind."""


@dataclass(frozen=True)
class Draw:
    """What one random instruction drew: `array`, and the `mask` made from it, if there is one.

    `translated` when the mask is that of a later comparison.
    """

    op: str
    array: Any
    mask: Any = None
    translated: bool = False


@dataclass(frozen=True)
class Replayed:
    """The comparison of all steps under replay, or in `why_not` why there is none.

    `seen` are the steps with loss and gradients of the passes that were compared.
    With `translated`, a mask was taken from a comparison in the program, so that a disagreement
    proves nothing. `wrong_share` is a sentence on a mask that keeps too many or too few entries.
    """

    comparison: Comparison | None = None
    seen: tuple[StepRecord, ...] = ()
    why_not: str = ""
    translated: bool = False
    wrong_share: str = ""

    @property
    def proves(self) -> bool:
        """Whether this comparison stands by itself."""
        if self.comparison is None:
            return False
        return not (self.translated and self.comparison.first_locked is not None)


def draws_of(
    lowered: Lowered, dump: Sequence[InstructionDump], random: Sequence[Instruction]
) -> list[Draw]:
    """The draws of the random instructions. Raises ReplayError if one was not dumped."""
    by_index = {record.instruction: record for record in dump}
    nodes = kernel_nodes(lowered.emitted)
    indices = {node: index for index, node in nodes.items()}
    draws = []
    for instruction in random:
        record = by_index.get(instruction.index)
        if record is None or not record.outputs:
            raise ReplayError(f"instruction {instruction.index} was not dumped")
        name = _plain(record.op)
        array = record.outputs[0].array
        if name == "native_dropout":
            draws.append(Draw(name, array, record.outputs[1].array))
        elif name == "bernoulli":
            draws.append(Draw(name, array, array))
        else:
            mask = _compared(nodes[instruction.index], indices, by_index)
            draws.append(Draw(name, array, mask, translated=mask is not None))
    return draws


def _plain(op: str) -> str:
    return op.partition("::")[2].partition(".")[0]


def _compared(
    node: Any, indices: Mapping[Any, int], dump: Mapping[int, InstructionDump]
) -> Any | None:
    """The result of the one comparison that reads the draw, None if there is no such thing."""
    found = [
        dump[indices[user]]
        for user in node.users
        if user in indices
        and indices[user] in dump
        and _plain(dump[indices[user]].op) in _COMPARISONS
    ]
    return found[0].outputs[0].array if len(found) == 1 else None


def replay_mode(draws: Sequence[Draw], shares: _Shares | None = None) -> Any:
    """A torch dispatch mode that gives eager these draws instead of its own.

    Raises ReplayError, inside, for a draw that does not fit; `left` are those not used yet.
    `shares` takes what the masks keep.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Replay(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.left = list(draws)

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            kwargs = kwargs or {}
            if torch.Tag.nondeterministic_seeded not in func.tags:
                return func(*args, **kwargs)
            name = func._schema.name.partition("::")[2].removesuffix("_")
            if not _draws(func, args, kwargs):
                return func(*args, **kwargs)
            if not self.left:
                raise ReplayError("eager draws more often than the program")
            if name not in _MASKS and _kind(name) != _kind(self.left[0].op):
                return self.taken_apart(func, args, kwargs)
            result = func(*args, **kwargs)
            draw = self.left.pop(0)
            if name == "native_dropout":
                made, mask = result
                mask.copy_(_fitting(draw, draw.mask, mask, name))
                made.copy_(args[0] * mask / (1 - args[1]))
                if shares is not None:
                    shares.add(name, mask, 1 - args[1])
            elif name == "bernoulli":
                keep = _keep(func, args, kwargs)
                result.copy_(_fitting(draw, draw.mask, result, name))
                if shares is not None:
                    shares.add(name, result, keep)
            else:
                result.copy_(_fitting(draw, draw.array, result, name))
            return result

        def taken_apart(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
            """A draw that the program makes from others, as the rewrite of its op says."""
            name = qualified_name(func)
            own = func._schema.name.partition("::")[2].removesuffix("_")
            why = f"eager draws by {own}, the program by {self.left[0].op}"
            if DRAWS.get(name) in ("uniform", "normal"):
                raise ReplayError(why)
            try:
                with self:
                    return by_rewrite(name, args, kwargs)
            except ModelError:
                raise ReplayError(why) from None

    return Replay()


def _draws(func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether this call draws: not attention without dropout, nor dropout in evaluation."""
    given = dict(kwargs)
    for argument, value in zip(func._schema.arguments, args, strict=False):
        given[argument.name] = value
    probability = given.get("dropout_p", given.get("p") if "dropout" in func.__name__ else None)
    switch = next((given[name] for name in ("train", "training") if name in given), None)
    if "attention" in func.__name__:
        return bool(probability)
    return switch is not False


def _kind(op: str) -> str:
    return op.removesuffix("_like")


def _keep(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """The probability of a one in a call of bernoulli: in place and `p` aside, it is the input."""
    if len(args) > 1 or "p" in kwargs:
        return args[1] if len(args) > 1 else kwargs["p"]
    return 0.5 if func._schema.name.endswith("_") else args[0]


def _fitting(draw: Draw, array: Any, result: Any, name: str) -> Any:
    import numpy
    import torch

    if array is None:
        raise ReplayError(f"eager draws a mask by {name}, the program has none after {draw.op}")
    if array.size != result.numel():
        raise ReplayError(
            f"eager draws {list(result.shape)} by {name}, the program {list(array.shape)}"
        )
    return torch.from_numpy(numpy.array(array)).reshape(result.shape).to(result.dtype)


def instructions_to_dump(lowered: Lowered, random: Sequence[Instruction]) -> tuple[int, ...]:
    """The instructions whose dump a replay needs: draws, their masks, loss and gradients."""
    nodes = kernel_nodes(lowered.emitted)
    indices = {node: index for index, node in nodes.items()}
    needed = [instruction.index for instruction in random]
    for instruction in random:
        node = nodes.get(instruction.index)
        needed += [indices[user] for user in getattr(node, "users", ()) if user in indices]
    return tuple(sorted({*needed, *instructions_of_outputs(lowered)}))


def replay(
    lowered: Lowered,
    trace: Trace,
    random: Sequence[Instruction],
    oracle: Oracle,
    *,
    order: Sequence[str] = (),
    prefix: str = "",
) -> Replayed:
    """Compare every step with eager under the program's own draws, to rounding.

    The dump of the trace holds `instructions_to_dump` of every step; loss and gradients come from
    it by their true names, the weights from the recorded steps. `oracle` holds the initial weights.
    """
    shifted = shifted_names(trace, oracle, lambda name: name.removeprefix(prefix))
    if shifted:
        return Replayed(why_not=shifted)
    by_step: dict[int, list[InstructionDump]] = {}
    for record in trace.dump:
        by_step.setdefault(record.step, []).append(record)
    try:
        draws = []
        seen = []
        for index, step in enumerate(trace.steps):
            dump = by_step.get(index, [])
            draws.append(draws_of(lowered, dump, random))
            seen.append(_seen(lowered, dump, step))
        shares = _Shares()
        counted: set[int] = set()

        @contextmanager
        def around(index: int) -> Iterator[None]:
            # Later passes over a step replay the same draws, which are no further evidence.
            mode = replay_mode(draws[index], None if index in counted else shares)
            counted.add(index)
            with mode:
                yield
            if mode.left:
                raise ReplayError("the program draws more often than eager")

        oracle.around = around
        try:
            comparison = compare(trace, oracle, None, order=order, prefix=prefix, seen=seen)
        finally:
            oracle.around = lambda index: nullcontext()
    except ReplayError as error:
        return Replayed(why_not=str(error))
    comparison.replayed = True
    comparison.eager_losses = list(comparison.locked_losses)
    translated = any(draw.translated for step in draws for draw in step)
    return Replayed(comparison, tuple(seen), translated=translated, wrong_share=shares.wrong())


def _seen(lowered: Lowered, dump: Sequence[InstructionDump], step: StepRecord) -> StepRecord:
    """The recorded step with loss and gradients of the dumped pass. Raises ReplayError."""
    loss, gradients = values_of_outputs(lowered, dump)
    if loss is None:
        raise ReplayError("the loss is not in the dump")
    if len(gradients) < len(step.gradients):
        count = len(step.gradients) - len(gradients)
        raise ReplayError(f"{count} of {len(step.gradients)} gradients are not in the dump")
    return replace(step, loss=loss, gradients=gradients)


class _Shares:
    """How many entries masks kept, and how many they should have, over all steps."""

    def __init__(self) -> None:
        self.sums: dict[str, list[float]] = {}

    def add(self, name: str, mask: Any, keep: Any) -> None:
        """`keep` is the probability of a one: a number, or a tensor of them."""
        import torch

        p = torch.as_tensor(keep, dtype=torch.float64).expand(mask.shape)
        total = self.sums.setdefault(name, [0.0, 0.0, 0.0, 0.0])
        total[0] += float(mask.to(torch.float64).sum())
        total[1] += float(p.sum())
        total[2] += float((p * (1 - p)).sum())
        total[3] += mask.numel()

    def wrong(self) -> str:
        """A sentence on a share that chance does not explain (six standard deviations)."""
        for name, (kept, expected, variance, count) in self.sums.items():
            if not (abs(kept - expected) <= 6 * math.sqrt(variance)):
                return (
                    f"the masks of {name} keep {kept / count:.4g} of the entries, "
                    f"not {expected / count:.4g}"
                )
        return ""
