"""Custom autograd functions, whose backward the export drops.

Non-strict `torch.export` (torch 2.14) records what `Function.forward` does and forgets that the
function had a backward of its own: the joint graph differentiates the recorded operators. A
straight-through estimator so gets the gradient of `round`, which is zero, without any error.
Whether that matters for a given model is measured here, in eager mode.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from graphcheck.graph.surroundings import Surroundings
from graphcheck.graph.wrong_gradients import WrongGradients, gradients_of, wrong_gradients
from graphcheck.workload.types import Workload
from graphcheck.workload.user_code import Frame, calling_frame

__all__ = ["LostBackward", "lost_backward"]


@dataclass(frozen=True)
class LostBackward:
    """Custom functions that forward calls, and the gradients that go wrong without their backward.

    `frame` is the first call of the first function.
    """

    functions: tuple[str, ...]
    frame: Frame | None
    wrong: WrongGradients


class _Context:
    """Stands in for the ctx argument of `Function.forward`."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None: ...

    def mark_dirty(self, *tensors: Any) -> None: ...

    def mark_non_differentiable(self, *tensors: Any) -> None: ...

    def set_materialize_grads(self, value: bool) -> None: ...


def _defined_outside_torch() -> bool:
    from torch.autograd import Function

    waiting = list(Function.__subclasses__())
    while waiting:
        kind = waiting.pop()
        if not kind.__module__.startswith(("torch.", "torchvision.", "executorch.")):
            return True
        waiting += kind.__subclasses__()
    return False


@contextlib.contextmanager
def _apply_replaced(apply: Callable[..., Any]) -> Iterator[None]:
    from torch.autograd import Function

    own = Function.__dict__.get("apply")
    Function.apply = classmethod(apply)
    try:
        yield
    finally:
        if own is None:
            del Function.apply
        else:
            Function.apply = own


def _as_export_sees_it(kind: Any, *args: Any, **kwargs: Any) -> Any:
    import torch

    context = _Context()
    context.needs_input_grad = tuple(
        isinstance(value, torch.Tensor) and value.requires_grad for value in args
    )
    if kind.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context:
        return kind.forward(*args, **kwargs)
    return kind.forward(context, *args, **kwargs)


def lost_backward(workload: Workload) -> LostBackward | None:
    """What goes wrong when the backward of the model's custom functions is dropped.

    None when there are none, when their backward is what autograd would do anyway, or when the
    model does not run (which other checks report). Costs nothing unless some `autograd.Function`
    is defined outside torch; then two forward and backward passes on copies.
    """

    if not _defined_outside_torch():
        return None
    import copy

    from torch.autograd import Function

    descriptor = inspect.getattr_static(Function, "apply")
    calls: list[tuple[str, Frame | None]] = []

    def recorded(kind: Any, *args: Any, **kwargs: Any) -> Any:
        if not kind.__module__.startswith("torch."):
            calls.append((kind.__name__, calling_frame()))
        return descriptor.__get__(None, kind)(*args, **kwargs)

    def replaced(kind: Any, *args: Any, **kwargs: Any) -> Any:
        if kind.__module__.startswith("torch."):
            return descriptor.__get__(None, kind)(*args, **kwargs)
        return _as_export_sees_it(kind, *args, **kwargs)

    try:
        first, second = copy.deepcopy(workload.module), copy.deepcopy(workload.module)
        around = Surroundings(workload.module)
        with _apply_replaced(recorded), around.kept():
            _, right = gradients_of(workload, first)
        if not calls:
            return None
        with _apply_replaced(replaced), around.kept():
            _, without = gradients_of(workload, second)
    except Exception:
        return None
    wrong = wrong_gradients(right, without, workload.prefix)
    if wrong is None:
        return None
    functions = tuple(dict.fromkeys(name for name, _ in calls))
    return LostBackward(functions, calls[0][1], wrong)
