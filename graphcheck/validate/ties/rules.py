"""Eager PyTorch with another rule for ties: split equally, or another slope at a kink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphcheck.validate.ties.windows import Windows

__all__ = ["FORWARD", "at_zero_mode", "named_arguments", "rule_mode"]

FORWARD = "aten::max_pool2d_with_indices"
_BACKWARD = ("aten::max_pool2d_with_indices_backward", "aten::adaptive_max_pool2d_backward")


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
            if func._schema.name not in _BACKWARD:
                return result
            given = named_arguments(func, args, kwargs or {})
            gradient = given["grad_output"]
            windows = Windows(given["self"], given, tuple(gradient.shape))
            made = windows.split(gradient) if split else windows.indexed(gradient, given["indices"])
            return result.copy_(made)

    return Rule()


def at_zero_mode(slope: float, zeros: list[int]) -> Any:
    """A dispatch mode in which relu passes `slope` times the gradient where its input is exactly
    0, which is admissible for any slope of 0 to 1. `zeros` takes how many such entries a relu met.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class AtZero(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.zero: dict[int, Any] = {}
            self.held: list[Any] = []

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            name = func._schema.name
            if name in ("aten::relu", "aten::relu_"):
                zero = args[0] == 0
                result = func(*args, **(kwargs or {}))
                zeros.append(int(zero.sum()))
                self.zero[result.data_ptr()] = zero
                self.held.append(result)
                return result
            result = func(*args, **(kwargs or {}))
            if name == "aten::threshold_backward":
                given = named_arguments(func, args, kwargs or {})
                gradient, zero = given["grad_output"], self.zero.get(given["self"].data_ptr())
                if zero is not None and zero.shape == result.shape:
                    return torch.where(zero, gradient * slope, result)
            return result

    return AtZero()
