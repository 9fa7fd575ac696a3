"""Hooks that forward sets on tensors, kept from being set."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["tensor_hooks_off"]


class _Handle:
    """Stands for the handle of a hook that was not set."""

    def remove(self) -> None: ...


@contextlib.contextmanager
def tensor_hooks_off(noticed: Callable[[Any], None] | None = None) -> Iterator[None]:
    """Within, `Tensor.register_hook` sets nothing; each hook is given to `noticed`.

    Without gradients torch would refuse them, and forward would end there.
    """
    import torch

    original = torch.Tensor.register_hook

    def ignored(self: Any, hook: Any) -> Any:
        if noticed is not None:
            noticed(hook)
        return _Handle()

    torch.Tensor.register_hook = ignored
    try:
        yield
    finally:
        torch.Tensor.register_hook = original
