"""What forward may change in a module beside its parameters, kept and put back.

Buffers (what they hold, and which tensor has the name, for `self.mean = ...` binds another one),
plain attributes and what they hold, as far as `held` sees it.
"""

from __future__ import annotations

from typing import Any

from graphcheck.graph.held import Held, held, restored
from graphcheck.graph.surroundings import Surroundings

__all__ = ["ModuleState", "plain_attributes"]


class ModuleState:
    """The state of one module at one time."""

    def __init__(self, module: Any, around: Surroundings | None = None) -> None:
        """With `around`, what is outside of the module belongs to its state."""
        import torch

        self._outside = around.now() if around else None
        self._modules = [
            (inner, _all_held(inner._buffers), _all_held(plain_attributes(inner)))
            for inner in module.modules()
            if not isinstance(inner, torch.jit.ScriptModule)  # it keeps its own, in C++
        ]

    def put(self) -> None:
        """Bring the module back to this state. Any number of times."""
        if self._outside is not None:
            self._outside()
        for inner, buffers, attributes in self._modules:
            _put_all(inner._buffers, buffers, list(inner._buffers))
            # Past the module's own __setattr__, which would register a tensor's module.
            _put_all(vars(inner), attributes, list(plain_attributes(inner)))


def plain_attributes(inner: Any) -> dict[str, Any]:
    """What a module holds beside what every nn.Module does."""
    import torch

    own = vars(torch.nn.Module()).keys()
    return {name: value for name, value in vars(inner).items() if name not in own}


def _all_held(values: dict[str, Any]) -> dict[str, Held]:
    return {name: held(value) for name, value in values.items()}


def _put_all(target: dict[str, Any], kept: dict[str, Held], names: list[str]) -> None:
    for name in names:
        if name not in kept:
            del target[name]
    for name, value in kept.items():
        target[name] = restored(value)
