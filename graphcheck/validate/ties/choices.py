"""What a runtime decided where it may have met a tie, and what decides there in eager PyTorch.

Four families of ops have points where two right answers differ. `side`: relu, abs and others with a
kink, where it matters on which side of it an entry is. `pick`: ops that give the index of what they
picked. `extreme`: amax and the like, whose gradient goes to the entries that equal the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphcheck.runtime.lower import Instruction, Lowered
from graphcheck.runtime.types import InstructionDump, TensorData
from graphcheck.validate.ties.picks import POOLS

__all__ = ["EXTREME", "PICK", "RELU", "SIDE", "Choice", "choice_of", "family_of", "kinks", "sites"]

RELU, SIDE, PICK, EXTREME = "relu", "side", "pick", "extreme"

_SIDES = ("abs", "hardtanh", "leaky_relu")
_PICKS = (*POOLS, "topk", "sort", "kthvalue")
_BOTH = ("max", "min", "median", "nanmedian")
"""With a dim they pick; without one max and min are extreme."""
_WHOLE = ("", "default", "unary_out")


@dataclass(frozen=True)
class Choice:
    """What an instruction decided: `name` is that of its op, `array` what `family` calls for.

    relu: whether each entry is positive. side: the input. pick: indices. extreme: whether each
    entry equals the result. `shape` is that of the entries that were decided on.
    """

    family: str
    name: str
    module: str
    shape: tuple[int, ...]
    array: Any

    @property
    def tensor(self) -> Any:
        """The decisions as a torch tensor."""
        import numpy
        import torch

        array = self.array
        if self.family in (RELU, EXTREME):
            count = int(numpy.prod(self.shape))
            array = numpy.unpackbits(array, count=count).reshape(self.shape).astype(bool)
        return torch.from_numpy(numpy.array(array))


def family_of(name: str, overload: str) -> str:
    """The family of an op (`max`, `dim`), out variants as well; "" if it has no ties."""
    if name == "relu":
        return RELU
    if name in _SIDES:
        return SIDE
    if name in _PICKS or (name in _BOTH and overload.startswith("dim")):
        return PICK
    if name in ("amax", "amin") or (name in ("max", "min") and overload in _WHOLE):
        return EXTREME
    return ""


def kinks(name: str, given: Mapping[str, Any]) -> tuple[float, ...]:
    """Where an op of the family `side` has its kinks."""
    if name == "hardtanh":
        return float(given["min_val"]), float(given["max_val"])
    return (0.0,)


def sites(lowered: Lowered) -> tuple[Instruction, ...]:
    """The instructions that can meet ties, in order of execution."""
    return tuple(i for i in lowered.instructions if _family(i.op))


def choice_of(record: InstructionDump, module: str) -> Choice | None:
    """What a recorded instruction decided; None where no floats are compared."""
    import numpy

    family, name = _family(record.op), _name(record.op)
    source = record.arguments[0]
    if not isinstance(source, TensorData) or "float" not in source.dtype:
        return None
    made = record.outputs[0].array
    if family == RELU:
        return Choice(family, name, module, made.shape, numpy.packbits(made > 0))
    if family == SIDE:
        return Choice(family, name, module, source.array.shape, source.array.copy())
    if family == PICK:
        if len(record.outputs) != 2:
            return None
        indices = record.outputs[1].array
        return Choice(family, name, module, indices.shape, indices.copy())
    reduced = _as_source(made, source.array.shape, record.arguments)
    equal = numpy.packbits(source.array == reduced)
    return Choice(family, name, module, source.array.shape, equal)


def _as_source(made: Any, shape: Sequence[int], arguments: Sequence[Any]) -> Any:
    """The result of a reduction with the dims that it lost, of size 1."""
    dims = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], (list, tuple)) else ()
    reduced = {dim % max(1, len(shape)) for dim in dims} or set(range(len(shape)))
    return made.reshape([1 if dim in reduced else size for dim, size in enumerate(shape)])


def _name(op: str) -> str:
    return op.partition("::")[2].partition(".")[0]


def _family(op: str) -> str:
    space, _, rest = op.partition("::")
    name, _, overload = rest.partition(".")
    return family_of(name, overload) if space == "aten" else ""
