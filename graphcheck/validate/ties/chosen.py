"""Eager PyTorch that decides at ties as the runtime did, where that is admissible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphcheck.validate.noise import AMPLITUDE, op_name, unit
from graphcheck.validate.ties.choices import EXTREME, PICK, RELU, Choice, family_of
from graphcheck.validate.ties.judging import ADMISSIBLE, Call, other_side, picked
from graphcheck.validate.ties.rules import named_arguments

__all__ = ["Decided", "NotATie", "StepChoices", "chosen_mode", "watching_mode"]

_BACKWARD = {"sgn": "self", "sign": "self", "hardtanh_backward": "self"}
_BACKWARD |= {"leaky_relu_backward": "self"}


class NotATie(Exception):
    """The runtime decided otherwise than eager where there is no tie."""


@dataclass(frozen=True)
class Decided:
    """Entries that an op of the runtime decided otherwise: `equal` at exact ties, or `near`."""

    choice: Choice
    equal: int
    near: int


@dataclass
class StepChoices:
    """The runtime's decisions in one step, and which of them belongs to which call in eager.

    `spread` holds, call by call, how far noise moved the input of the op.
    """

    choices: Sequence[Choice]
    spread: Sequence[Any] = ()
    decided: list[Decided] = field(default_factory=list)
    taken: list[Choice | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = list(self.choices)

    def of_call(self, number: int, family: str, call: Call) -> Choice | None:
        """The decision for a call; None where the program has no such instruction.

        The first pass judges and settles it for the others, to whose inputs noise was added.
        Raises NotATie if none is admissible.
        """
        if number < len(self.taken):
            return self.taken[number]
        fitting = [c for c in self.left if (c.family, c.shape) == (family, call.shape)]
        room = self.room(number, call.source)
        for choice in fitting:
            counts = ADMISSIBLE[family](choice, call, room)
            if counts is not None:
                self.left = [other for other in self.left if other is not choice]
                self.taken.append(choice)
                if any(counts):
                    self.decided.append(Decided(choice, *counts))
                return choice
        if fitting:
            raise NotATie(f"{call.name} decides otherwise than eager where there is no tie")
        self.taken.append(None)
        return None

    def room(self, number: int, source: Any) -> Any:
        """How far rounding may have moved each entry of an input: a few last places of it, or of
        the largest entry of its image, from whose terms it may have been made; or what noise in
        all that came before moves."""
        import torch

        scale = source.detach().double().abs()
        rows = scale.flatten(1) if scale.dim() > 1 else scale.reshape(1, -1)
        shape = [-1, *[1] * (scale.dim() - 1)] if scale.dim() > 1 else [1] * scale.dim()
        largest = rows.amax(1).reshape(shape) if scale.numel() else scale
        room = AMPLITUDE * unit(source.dtype) * (scale + largest)
        if number < len(self.spread) and self.spread[number].shape == room.shape:
            room = torch.maximum(room, self.spread[number])
        return room


def watching_mode(inputs: list[Any]) -> Any:
    """A dispatch mode that adds the input of each op that can meet ties to `inputs`, in float64."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            if _family(func, args):
                inputs.append(args[0].detach().double().clone())
            return func(*args, **(kwargs or {}))

    return Watch()


def chosen_mode(step: StepChoices) -> Any:
    """A dispatch mode in which each op that meets a tie decides as the runtime did.

    Raises NotATie, inside, for a decision that is not admissible.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Chosen(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.held: list[Any] = []
            self.cloned: dict[int, Any] = {}
            self.sides: dict[int, tuple[Any, Any]] = {}
            self.equal: dict[tuple[int, int], Any] = {}

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            kwargs = kwargs or {}
            family = _family(func, args)
            if not family:
                return self._other(func, args, kwargs)
            given = named_arguments(func, args, kwargs)
            in_place = func._schema.name.endswith("_")
            source = args[0].detach().clone() if in_place else args[0].detach()
            result = func(*args, **kwargs)
            call = Call(op_name(func), given, source, result)
            number, self.calls = self.calls, self.calls + 1
            choice = step.of_call(number, family, call)
            if choice is None:
                return result
            if family == RELU:
                positive = choice.tensor
                least = torch.finfo(result.dtype).smallest_normal
                moved = torch.where(positive, result.clamp(min=least), torch.zeros_like(result))
                return result.copy_(torch.where(result != result, result, moved))
            if family == PICK:
                values, indices = result
                return (
                    values.copy_(picked(choice, call, source)),
                    indices.copy_(choice.tensor),
                )
            self.held += [args[0], result]
            if family == EXTREME:
                self.equal[args[0].data_ptr(), result.data_ptr()] = choice.tensor
            else:
                # What is about to be overwritten is cloned before, and the clone is kept.
                kept = self.cloned.get(args[0].data_ptr(), args[0]) if in_place else args[0]
                self._keep_sides(choice, call, kept)
            return result

        def _keep_sides(self, choice: Choice, call: Call, saved: Any) -> None:
            """What the backward pass is to see in place of the input that it kept."""
            other = other_side(choice, call)
            if bool(other.any()):
                self.sides[saved.data_ptr()] = (other, choice.tensor.to(saved.dtype))

        def _other(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
            name = op_name(func)
            if name == "clone":
                result = func(*args, **kwargs)
                self.cloned[args[0].data_ptr()] = result
                self.held.append(result)
                return result
            if name == "eq" and self.equal and isinstance(args[1], torch.Tensor):
                first, second = args[0].data_ptr(), args[1].data_ptr()
                mask = self.equal.get((first, second), self.equal.get((second, first)))
                result = func(*args, **kwargs)
                if mask is None or mask.numel() != result.numel():
                    return result
                return result.copy_(mask.reshape(result.shape))
            if name in _BACKWARD and self.sides:
                names = [argument.name for argument in func._schema.arguments]
                at = names.index(_BACKWARD[name])
                found = self.sides.get(args[at].data_ptr()) if at < len(args) else None
                if found is not None and found[0].shape == args[at].shape:
                    moved = torch.where(found[0], found[1], args[at])
                    args = (*args[:at], moved, *args[at + 1 :])
            return func(*args, **kwargs)

    return Chosen()


def _family(func: Any, args: Sequence[Any]) -> str:
    """The family of a call on floats."""
    import torch

    if func.namespace != "aten" or not args or not isinstance(args[0], torch.Tensor):
        return ""
    floating = args[0].dtype.is_floating_point
    return family_of(op_name(func), func._schema.overload_name) if floating else ""
