"""What forward may change in a module beside its parameters, kept and put back.

Buffers (what they hold, and which tensor has the name, for `self.mean = ...` binds another one),
plain attributes (numbers, tensors, and lists, dicts, sets and deques of such) and generators of
random numbers (of torch, NumPy and Python). What other objects hold inside is not seen.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["ModuleState"]


@dataclass(frozen=True)
class _Held:
    """An object, and what it held when it was looked at (None for what cannot change)."""

    value: Any
    content: Any = None


class ModuleState:
    """The state of one module at one time."""

    def __init__(self, module: Any) -> None:
        self._modules = [
            (inner, _all_held(inner._buffers), _all_held(_attributes(inner)))
            for inner in module.modules()
        ]

    def put(self) -> None:
        """Bring the module back to this state. Any number of times."""
        for inner, buffers, attributes in self._modules:
            _put_all(inner._buffers, buffers, list(inner._buffers))
            # Past the module's own __setattr__, which would register a tensor's module.
            _put_all(vars(inner), attributes, list(_attributes(inner)))


def _attributes(inner: Any) -> dict[str, Any]:
    import torch

    own = vars(torch.nn.Module()).keys()
    return {name: value for name, value in vars(inner).items() if name not in own}


def _all_held(values: dict[str, Any]) -> dict[str, _Held]:
    return {name: _held(value) for name, value in values.items()}


def _put_all(target: dict[str, Any], kept: dict[str, _Held], names: list[str]) -> None:
    for name in names:
        if name not in kept:
            del target[name]
    for name, held in kept.items():
        target[name] = _restored(held)


def _held(value: Any) -> _Held:
    import numpy
    import torch

    if isinstance(value, torch.nn.Parameter):
        return _Held(value)  # recurrent layers list their own
    if isinstance(value, torch.Tensor):
        return _Held(value, value.detach().clone())
    if type(value) in (list, tuple, deque):
        return _Held(value, [_held(item) for item in value])
    if type(value) is set:
        return _Held(value, set(value))
    if isinstance(value, dict):
        return _Held(value, {key: _held(item) for key, item in value.items()})
    if isinstance(value, torch.Generator):
        return _Held(value, value.get_state())
    if isinstance(value, numpy.random.Generator):
        return _Held(value, value.bit_generator.state)
    if isinstance(value, numpy.random.RandomState):
        return _Held(value, value.get_state())
    if isinstance(value, random.Random):
        return _Held(value, value.getstate())
    return _Held(value)


def _restored(held: _Held) -> Any:
    """The same object with its content as it was."""
    import numpy
    import torch

    value, content = held.value, held.content
    if isinstance(value, torch.Tensor):
        if content is not None and not _equal(value, content):
            with torch.no_grad():
                value.copy_(content)
    elif type(value) is tuple:
        for item in content:
            _restored(item)
    elif type(value) in (list, deque):
        items = list(_each(content))
        value.clear()
        value.extend(items)
    elif type(value) is set:
        value.clear()
        value.update(content)
    elif isinstance(value, dict):
        items = list(zip(content, _each(content.values()), strict=True))
        value.clear()
        value.update(items)
    elif isinstance(value, torch.Generator):
        value.set_state(content)
    elif isinstance(value, numpy.random.Generator):
        value.bit_generator.state = content
    elif isinstance(value, numpy.random.RandomState):
        value.set_state(content)
    elif isinstance(value, random.Random):
        value.setstate(content)
    return value


def _each(contents: Any) -> Iterator[Any]:
    return (_restored(item) for item in contents)


def _equal(tensor: Any, content: Any) -> bool:
    """Whether nothing is to be done; autograd counts every write."""
    import torch

    same = tensor.shape == content.shape and tensor.dtype == content.dtype
    return bool(same and torch.equal(tensor.detach(), content))
