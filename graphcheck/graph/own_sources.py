"""The source files that a model's own classes come from."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["LIBRARIES", "own_sources"]

LIBRARIES = ("torch.", "torchvision.", "executorch.", "graphcheck.")
"""Their modules are not searched for what a user wrote."""


def own_sources(module: Any) -> Iterator[str]:
    """The text of every source file that defines a class of the model outside these libraries."""
    for name in sorted({type(inner).__module__ for inner in module.modules()}):
        if f"{name}.".startswith(LIBRARIES) or name not in sys.modules:
            continue
        try:
            yield inspect.getsource(sys.modules[name])
        except (OSError, TypeError):
            continue
