"""Eager PyTorch with another rule for ties: split equally, or as the runtime chose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphcheck.validate.ties.picks import wrong_picks
from graphcheck.validate.ties.windows import Windows

__all__ = ["FORWARD", "NotATie", "chosen_mode", "named_arguments", "rule_mode"]

FORWARD = "aten::max_pool2d_with_indices"
_BACKWARD = "aten::max_pool2d_with_indices_backward"


class NotATie(Exception):
    """The runtime picked an entry that is neither the largest nor within rounding of it."""


def named_arguments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the schema, defaults filled in."""
    found = {}
    for position, argument in enumerate(func._schema.arguments):
        if position < len(args):
            found[argument.name] = args[position]
        else:
            found[argument.name] = kwargs.get(argument.name, argument.default_value)
    return found


def rule_mode(*, split: bool) -> Any:
    """A dispatch mode in which max pools share the gradient of a tie equally, or give it to the
    index of the forward pass as ever. Both add up in float64, so that only the rule differs."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Rule(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            if func._schema.name != _BACKWARD:
                return result
            given = named_arguments(func, args, kwargs or {})
            gradient = given["grad_output"]
            windows = Windows(given["self"], given, tuple(gradient.shape))
            made = windows.split(gradient) if split else windows.indexed(gradient, given["indices"])
            return result.copy_(made)

    return Rule()


def chosen_mode(
    choices: Sequence[Any],
    interval: Callable[[Any], Any],
    counts: list[tuple[int, int]],
    *,
    judge: bool = True,
) -> Any:
    """A dispatch mode in which each max pool picks the indices of `choices`, in turn.

    `interval` gives how far rounding may have moved each entry of a pool's input. `counts` takes,
    pool by pool, how many windows chose another of equal values, and another of nearly equal ones.
    Raises NotATie, inside, for a choice that neither explains. Without `judge` the values of the
    choices are not looked at: they belong to a pass that noise was added to.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Chosen(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.left = list(choices)

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            if func._schema.name != FORWARD:
                return result
            given = named_arguments(func, args, kwargs or {})
            values, indices = result
            index = torch.from_numpy(self.left.pop(0).copy()) if self.left else None
            if index is None or index.shape != indices.shape:
                raise NotATie("the program has other max pools than the model")
            source = given["self"]
            flat = source.flatten(-2)
            inside = (index >= 0) & (index < flat.shape[-1])
            if not bool(inside.all()) or _outside(given, source, index):
                raise NotATie("an index is outside of its window")
            picked = torch.gather(flat, -1, index.flatten(-2)).reshape(values.shape)
            if not judge:
                return values.copy_(picked), indices.copy_(index)
            gap = (values - picked).double()
            room = interval(source).flatten(-2)
            near = torch.gather(room, -1, index.flatten(-2)).reshape(values.shape)
            best = torch.gather(room, -1, indices.flatten(-2)).reshape(values.shape)
            if not bool((gap <= near + best).all()):
                raise NotATie("an index points at a value that is further off than rounding")
            other = index != indices
            counts.append((int((other & (gap == 0)).sum()), int((other & (gap > 0)).sum())))
            return values.copy_(picked), indices.copy_(index)

    return Chosen()


def _outside(given: dict[str, Any], source: Any, index: Any) -> bool:
    """Whether an index is outside of its window."""
    from types import SimpleNamespace

    import torch

    picked = torch.gather(source.flatten(-2), -1, index.flatten(-2)).reshape(index.shape)
    bounds = SimpleNamespace(replay=SimpleNamespace(given=given), name="max_pool2d_with_indices")
    return wrong_picks(bounds, index, [picked]) is not None
