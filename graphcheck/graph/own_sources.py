"""The source files that a model's own classes come from, and those that they import."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from graphcheck.workload.user_code import is_users_own

__all__ = ["LIBRARIES", "is_filled", "own_modules", "own_sources"]

LIBRARIES = ("torch.", "torchvision.", "executorch.", "graphcheck.")
"""Their modules are not searched for what a user wrote."""
_MOST = 50
"""Files of one model after which imports are no longer followed."""


def own_modules(module: Any) -> list[ModuleType]:
    """The Python modules that define a class or a function of the model outside these libraries,
    and the user's own modules among those that they import."""
    found = {name: sys.modules[name] for name in sorted(_defining(module)) if name in sys.modules}
    waiting = list(found.values())
    while waiting and len(found) < _MOST:
        for name in _imported(waiting.pop()):
            other = sys.modules.get(name)
            if other is None or name in found or _of_a_library(name):
                continue
            if is_users_own(getattr(other, "__file__", None) or "<"):
                found[name] = other
                waiting.append(other)
    return list(found.values())


def own_sources(module: Any) -> Iterator[str]:
    """The text of every such module."""
    for found in own_modules(module):
        try:
            yield inspect.getsource(found)
        except (OSError, TypeError):
            continue


def _of_a_library(name: str) -> bool:
    return f"{name}.".startswith(LIBRARIES)


def _defining(module: Any) -> set[str]:
    names: set[str] = set()
    for inner in module.modules():
        names.add(type(inner).__module__)
        for value in vars(inner).values():
            if isinstance(value, FunctionType):
                # A loss function is in the closure of the wrapper's.
                cells = [cell.cell_contents for cell in value.__closure__ or () if is_filled(cell)]
                names |= {f.__module__ for f in (value, *cells) if isinstance(f, FunctionType)}
    return {name for name in names if name != "builtins" and not _of_a_library(name)}


def is_filled(cell: Any) -> bool:
    """Whether the variable of a closure has a value other than None."""
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _imported(module: ModuleType) -> Iterator[str]:
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            yield value.__name__
        elif isinstance(value, (FunctionType, type)):
            yield value.__module__
