"""One forward pass on a copy, to see what the model returns; the user's module stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from graphcheck.worker import progress
from graphcheck.workload.grad_mode import without_gradients
from graphcheck.workload.running_forward import running_forward
from graphcheck.workload.tensor_hooks import tensor_hooks_off

__all__ = ["isolated_copy", "probe"]


def isolated_copy(module: Any) -> Any:
    """A copy that shares the parameters but has buffers and attributes of its own.

    The module itself when it cannot be copied.
    """
    memo = {id(parameter): parameter for parameter in module.parameters()}
    try:
        return copy.deepcopy(module, memo)
    except Exception:
        return module


def probe(
    module: Any,
    inputs: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    hint: str = "",
    folder: str = "",
    gradients: bool = False,
) -> Any:
    """What `module(*inputs, **kwargs)` returns, computed without gradients unless they are wanted.

    Parameters, buffers, example inputs and the random state stay untouched. Raises ModelError
    GC002 or GC014 with the user's line when forward fails.
    """
    import torch
    from torch.utils import _pytree

    def clone(leaf: Any) -> Any:
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

    progress("running forward on the example inputs")
    subject = isolated_copy(module)
    kept = None
    if subject is module:
        kept = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]

    def run() -> Any:
        args, named = _pytree.tree_map(clone, (tuple(inputs), dict(kwargs)))
        return subject(*args, **named)

    with (
        running_forward(hint=hint, folder=folder),
        torch.random.fork_rng(devices=[]),
        torch.enable_grad() if gradients else tensor_hooks_off(),
    ):
        output = run() if gradients else without_gradients(run)
    with torch.no_grad():
        for buffer, value in kept or ():
            buffer.copy_(value)
    return output
