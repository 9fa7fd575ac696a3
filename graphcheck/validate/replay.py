"""The runtime's own random draws, fed into eager: then a random model must agree entry by entry.

The draws come from a dump of one step, in order of execution; eager draws in the same order, for
the forward pass keeps its order through export. Where eager draws a mask (`bernoulli_`) and the
program a uniform number that it compares with a limit, the result of that comparison is the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphcheck.runtime.lower import Instruction, Lowered, kernel_nodes
from graphcheck.runtime.types import InstructionDump
from graphcheck.validate.emitted import values_of_outputs
from graphcheck.validate.measure import LOSS, Error, judge_step, measure
from graphcheck.validate.oracle import Oracle
from graphcheck.validate.types import Divergence

__all__ = ["Draw", "ReplayError", "Replayed", "draws_of", "replay", "replay_mode"]

_MASKS = ("bernoulli", "native_dropout")
_COMPARISONS = ("lt", "le", "gt", "ge")


class ReplayError(Exception):
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
    """The comparison of one step under replay: relative errors, and the first divergence.

    `why_not` says why there was no comparison. With `translated`, the mask was taken from a
    comparison in the program, so that a disagreement proves nothing.
    """

    divergence: Divergence | None = None
    errors: Mapping[str, float] | None = None
    why_not: str = ""
    translated: bool = False


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


def replay_mode(draws: Sequence[Draw]) -> Any:
    """A torch dispatch mode that gives eager these draws instead of its own.

    Raises ReplayError, inside, for a draw that does not fit; `left` counts those not used yet.
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
            result = func(*args, **(kwargs or {}))
            if torch.Tag.nondeterministic_seeded not in func.tags:
                return result
            name = func._schema.name.partition("::")[2].removesuffix("_")
            if name == "native_dropout" and len(args) > 2 and args[2] is False:
                return result
            if not self.left:
                raise ReplayError("eager draws more often than the program")
            draw = self.left.pop(0)
            if name == "native_dropout":
                made, mask = result
                mask.copy_(_fitting(draw, draw.mask, mask, name))
                made.copy_(args[0] * mask / (1 - args[1]))
            elif name == "bernoulli":
                result.copy_(_fitting(draw, draw.mask, result, name))
            elif name == "uniform" and draw.op in ("rand", "rand_like"):
                low, high = (list(args[1:]) + [0.0, 1.0][len(args) - 1 :])[:2]
                result.copy_(_fitting(draw, draw.array, result, name) * (high - low) + low)
            elif name.removesuffix("_like") == draw.op.removesuffix("_like"):
                result.copy_(_fitting(draw, draw.array, result, name))
            else:
                raise ReplayError(f"eager draws by {name}, the program by {draw.op}")
            return result

    return Replay()


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


def replay(
    lowered: Lowered,
    dump: Sequence[InstructionDump],
    random: Sequence[Instruction],
    oracle: Oracle,
    *,
    told: Callable[[str], str],
) -> Replayed:
    """Compare the dumped step 0 with eager under the program's own draws.

    `oracle` holds the initial weights. Loss and gradients come from the dump, by their true names.
    """
    try:
        draws = draws_of(lowered, dump, random)
        mode = replay_mode(draws)
        eager = oracle.step(0, mode=mode, keep_buffers=True)
        if mode.left:
            raise ReplayError("the program draws more often than eager")
    except ReplayError as error:
        return Replayed(why_not=str(error))
    loss, gradients = values_of_outputs(lowered, dump)
    errors: dict[str, Error] = {LOSS: measure(loss, eager.loss)}
    for name, array in gradients.items():
        known = oracle.aliases.get(name, "")
        if known in eager.gradients:
            errors[known] = measure(array, eager.gradients[known])
    missing = [name for name in eager.gradients if name not in errors]
    if missing:
        return Replayed(why_not=f"the gradient of {told(missing[0])} is not in the dump")
    tolerances = oracle.tolerances(0, eager, pairs=range(6), around=lambda: replay_mode(draws))
    divergence, relative = judge_step(0, errors, tolerances, told)
    translated = any(draw.translated for draw in draws)
    return Replayed(divergence, relative, translated=translated)
