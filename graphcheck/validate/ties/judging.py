"""Whether a decision of the runtime is one that eager could have made, entry by entry.

`room` is how far rounding may have moved each entry of the op's input. A decision is admissible
where the entry it is about is no further from the tie than that. Every function here gives how
many entries were decided otherwise: at an exact tie, and within rounding of one; None if an entry
was decided that is at no tie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from graphcheck.validate.ties.choices import EXTREME, PICK, RELU, SIDE, Choice, kinks
from graphcheck.validate.ties.picks import POOLS, wrong_picks

__all__ = ["ADMISSIBLE", "Call", "other_side", "picked"]

Counts = tuple[int, int]


class Call:
    """A call in eager: the arguments by name, the input before it, what came out."""

    def __init__(self, name: str, given: Mapping[str, Any], source: Any, result: Any) -> None:
        self.name = name
        self.given = dict(given)
        self.source = source
        self.result = result

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is decided on."""
        return tuple((self.result[1] if isinstance(self.result, tuple) else self.source).shape)

    @property
    def largest(self) -> Any:
        """The result of a reduction, with the dims it lost of size 1."""
        dims = self.given.get("dim")
        dims = [dims] if isinstance(dims, int) else list(dims or ())
        rank = self.source.dim()
        reduced = {dim % max(1, rank) for dim in dims} or set(range(rank))
        shape = [1 if dim in reduced else size for dim, size in enumerate(self.source.shape)]
        return self.result.reshape(shape)

    @property
    def along(self) -> tuple[Any, int]:
        """What a pick chooses from, and the dim along which it does."""
        if self.name in POOLS:
            return self.source.flatten(-2), -1
        return self.source, int(self.given.get("dim", -1))


def _relu(choice: Choice, call: Call, room: Any) -> Counts | None:
    other = choice.tensor != (call.result > 0)
    near = call.source.double().abs() <= room
    return None if bool((other & ~near).any()) else (0, int(other.sum()))


def other_side(choice: Choice, call: Call) -> Any:
    """Where the runtime's input is on another side of a kink than eager's."""
    import torch

    theirs = choice.tensor.to(call.source.dtype)
    other = torch.zeros_like(call.source, dtype=torch.bool)
    for point in kinks(call.name, call.given):
        other |= torch.sign(theirs - point) != torch.sign(call.source - point)
    return other


def _side(choice: Choice, call: Call, room: Any) -> Counts | None:
    import torch

    other = other_side(choice, call)
    near = torch.zeros_like(other)
    theirs = choice.tensor.double()
    for point in kinks(call.name, call.given):
        off = torch.maximum((call.source.double() - point).abs(), (theirs - point).abs())
        near |= off <= room
    return None if bool((other & ~near).any()) else (0, int(other.sum()))


def picked(choice: Choice, call: Call, values: Any) -> Any:
    """The entries of `values` (of the shape of the input) that the runtime picked."""
    import torch

    index, dim = choice.tensor, call.along[1]
    flat = values.flatten(-2) if call.name in POOLS else values
    if call.name in POOLS:
        return torch.gather(flat, -1, index.flatten(-2)).reshape(index.shape)
    if index.dim() == flat.dim():
        return torch.gather(flat, dim, index)
    return torch.gather(flat, dim, index.unsqueeze(dim)).squeeze(dim)


def _pick(choice: Choice, call: Call, room: Any) -> Counts | None:
    index = choice.tensor
    source, dim = call.along
    if not bool(((index >= 0) & (index < source.shape[dim])).all()):
        return None
    theirs = picked(choice, call, call.source)
    given = {name: value for name, value in call.given.items() if name != "stable"}
    judged = SimpleNamespace(replay=SimpleNamespace(given=given), name=call.name)
    if wrong_picks(judged, index, [theirs]) is not None:
        return None  # outside of its window, or twice the same
    values, indices = call.result
    gap = (values.double() - theirs.double()).abs()
    ours = Choice(PICK, call.name, "", choice.shape, indices.numpy())
    allowed = picked(choice, call, room) + picked(ours, call, room)
    if not bool((gap <= allowed).all()):
        return None
    other = index != indices
    return int((other & (gap == 0)).sum()), int((other & (gap > 0)).sum())


def _extreme(choice: Choice, call: Call, room: Any) -> Counts | None:
    best = call.largest
    mine, theirs = call.source == best, choice.tensor
    gap = (best.double() - call.source.double()).abs()
    # The result was made from one of the entries that equal it: its room is theirs.
    own = (room * mine).amax() if best.numel() == 1 else _spread(room * mine, best)
    if not bool((~theirs | (gap <= room + own)).all()):
        return None
    if not bool((_spread(theirs.double(), best) > 0).all()):
        return None
    # The entries that equal the result have the gradient, here as there: only rounding decides.
    return 0, int((_spread((mine != theirs).double(), best) > 0).sum())


def _spread(values: Any, best: Any) -> Any:
    dims = [dim for dim, size in enumerate(best.shape) if size != values.shape[dim]]
    return values.amax(dims, keepdim=True) if dims else values


ADMISSIBLE: Mapping[str, Callable[[Choice, Call, Any], Counts | None]] = {
    RELU: _relu,
    SIDE: _side,
    PICK: _pick,
    EXTREME: _extreme,
}
