"""The thin wrapper that turns a model of predictions into one whose output 0 is the loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from graphcheck.workload.heads import heads
from graphcheck.workload.losses import Loss

__all__ = ["PREFIX", "argument_names", "composed_loss", "detach_others", "with_loss"]

PREFIX = "model."
"""Name of the user's module inside a wrapper."""


def argument_names(module: Any, count: int) -> list[str]:
    """Names of the first `count` positional arguments of forward, `args_0` for one of `*args`."""
    try:
        parameters = list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            break
        if parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    return (names + [f"{rest}_{index}" for index in range(count)])[:count]


def composed_loss(loss: Loss, *, sequence: bool = False) -> Callable[..., Any]:
    """`loss` over the prediction and, weighted, over the auxiliary outputs."""

    def compute(output: Any, *targets: Any) -> Any:
        total = None
        for _, weight, tensor in heads(output, sequence=sequence):
            term = loss(tensor, *targets)
            if weight != 1.0:
                term = term * weight
            total = term if total is None else total + term
        return total

    return compute


def _wrapper(
    module: Any, positional: Sequence[str], keywords: Sequence[str], finish: Any, count: int
) -> Any:
    """A module that calls `module` on its first `count` arguments and `finish` on the rest.

    Its signature has real names, so that graph inputs are called as the user calls them.
    """
    from torch import nn

    class ModelWithLoss(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = module
            # A loss with parameters of its own becomes a submodule here.
            self.criterion = finish
            # How many positional arguments are the model's; None when it makes the loss itself.
            self.predicts: int | None = None

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.criterion(self.model(*args[:count], **kwargs), *args[count:])

    kind = inspect.Parameter
    ModelWithLoss.forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [kind("self", kind.POSITIONAL_OR_KEYWORD)]
        + [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in positional]
        + [kind(name, kind.KEYWORD_ONLY) for name in keywords]
    )
    wrapper = ModelWithLoss()
    wrapper.training = module.training
    return wrapper


def with_loss(
    module: Any,
    inputs: Sequence[Any],
    keywords: Sequence[str],
    loss: Callable[..., Any],
    target_count: int,
) -> Any:
    """Wrap `module` so that forward takes inputs, then targets, and returns the loss alone.

    The user's module is `model` in it; neither its mode nor that of its children changes.
    """
    names = argument_names(module, len(inputs))
    taken = {*names, *keywords}
    targets = ["target"] if target_count == 1 else [f"target_{i}" for i in range(target_count)]
    for index, name in enumerate(targets):
        while name in taken:
            name = f"loss_{name}"
        targets[index] = name
        taken.add(name)
    wrapper = _wrapper(module, [*names, *targets], list(keywords), loss, len(inputs))
    wrapper.predicts = len(inputs)
    return wrapper


def detach_others(module: Any, inputs: Sequence[Any], keywords: Sequence[str]) -> Any:
    """Wrap a module that returns the loss first, so that all else it returns has no gradient."""

    def finish(output: Any) -> Any:
        import torch
        from torch.utils import _pytree

        leaves = _pytree.tree_leaves(output)
        rest = [
            leaf.detach() if leaf.requires_grad else leaf
            for leaf in leaves[1:]
            if isinstance(leaf, torch.Tensor)
        ]
        return (leaves[0], *rest)

    names = argument_names(module, len(inputs))
    return _wrapper(module, names, list(keywords), finish, len(inputs))
