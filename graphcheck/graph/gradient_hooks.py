"""Hooks on gradients, which the joint graph does not hold.

`torch.export` (2.14) records no hook: neither those of parameters, nor backward hooks of modules,
nor those that forward sets on tensors. A hook that scales, clips or reverses a gradient so works in
eager PyTorch and is gone in the program, without any error. Whether it matters for a given model
is measured here, in eager mode; a hook that only looks changes nothing.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphcheck.graph.own_sources import own_sources
from graphcheck.graph.surroundings import Surroundings
from graphcheck.graph.wrong_gradients import WrongGradients, gradients_of, wrong_gradients
from graphcheck.workload.tensor_hooks import tensor_hooks_off
from graphcheck.workload.types import Workload

__all__ = ["GradientHook", "LostHooks", "copied_with_hooks", "lost_hooks"]


@dataclass(frozen=True)
class GradientHook:
    """One hook: what it is on (`parameter a.weight`), its function's name, file and line."""

    on: str
    function: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class LostHooks:
    """The hooks of a model, and the gradients that go wrong without them."""

    hooks: tuple[GradientHook, ...]
    wrong: WrongGradients


def copied_with_hooks(module: Any) -> Any:
    """A deep copy that keeps the hooks of parameters, which `copy.deepcopy` drops."""
    twin = copy.deepcopy(module)
    others = dict(twin.named_parameters())
    for name, parameter in module.named_parameters():
        for hook in (parameter._backward_hooks or {}).values():
            others[name].register_hook(hook)
        for hook in (parameter._post_accumulate_grad_hooks or {}).values():
            others[name].register_post_accumulate_grad_hook(hook)
    return twin


def lost_hooks(workload: Workload) -> LostHooks | None:
    """What goes wrong when the model's gradient hooks are dropped.

    None when there are none, when they change no gradient, or when the model does not run (which
    other checks report). Costs nothing unless there are hooks, or a source file of the model has
    `register_hook`; then two forward and backward passes on copies.
    """
    module = workload.module
    hooks = list(_standing(module, workload.prefix))
    if not hooks and not any("register_hook(" in text for text in own_sources(module)):
        return None
    try:
        first, second = copied_with_hooks(module), copy.deepcopy(module)
        for inner in second.modules():
            inner._backward_hooks.clear()
            inner._backward_pre_hooks.clear()
        around = Surroundings(module)
        with around.kept():
            _, right = gradients_of(workload, first)
        noticed: list[GradientHook] = []

        def notice(hook: Any) -> None:
            noticed.append(_described("a tensor of forward", hook))

        with tensor_hooks_off(notice), around.kept():
            _, without = gradients_of(workload, second)
    except Exception:
        return None
    found = (*hooks, *noticed)
    wrong = wrong_gradients(right, without, workload.prefix) if found else None
    return LostHooks(found, wrong) if wrong else None


def _standing(module: Any, prefix: str) -> Iterator[GradientHook]:
    """The hooks that parameters and modules have."""
    for name, parameter in module.named_parameters():
        own = (parameter._backward_hooks or {}, parameter._post_accumulate_grad_hooks or {})
        for hook in (hook for held in own for hook in held.values()):
            yield _described(f"parameter {name.removeprefix(prefix)}", hook)
    for path, inner in module.named_modules():
        for hook in (*inner._backward_hooks.values(), *inner._backward_pre_hooks.values()):
            yield _described(f"module {path.removeprefix(prefix) or 'forward'}", hook)


def _described(on: str, hook: Any) -> GradientHook:
    while isinstance(hook, functools.partial):
        hook = hook.func
    hook = getattr(hook, "__func__", hook)
    code = getattr(hook, "__code__", None)
    name = getattr(hook, "__name__", type(hook).__name__)
    if code is None:
        return GradientHook(on, name)
    return GradientHook(on, name, code.co_filename, code.co_firstlineno)
