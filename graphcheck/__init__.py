"""graphcheck: makes a PyTorch model trainable on ExecuTorch, and proves it.

The public API: `check`, `validate`, `export`, `fix`, `make_trainable`; what they give: `Report`,
`Finding`, `Verdict`; and what they raise: `GraphcheckError` with its kinds `UsageError`,
`ModelError` and `DeviceError`.
Importing this package does not import torch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphcheck.api import check, export, fix, validate
    from graphcheck.errors import DeviceError, GraphcheckError, ModelError, UsageError
    from graphcheck.report.types import Report
    from graphcheck.rules.types import Finding
    from graphcheck.swap.live import make_trainable
    from graphcheck.validate.types import Verdict

__all__ = [
    "DeviceError",
    "Finding",
    "GraphcheckError",
    "ModelError",
    "Report",
    "UsageError",
    "Verdict",
    "check",
    "export",
    "fix",
    "make_trainable",
    "validate",
]
__version__ = "0.1.0"

_HOMES = {
    "check": "graphcheck.api",
    "validate": "graphcheck.api",
    "export": "graphcheck.api",
    "fix": "graphcheck.api",
    "make_trainable": "graphcheck.swap.live",
    "Report": "graphcheck.report.types",
    "Finding": "graphcheck.rules.types",
    "Verdict": "graphcheck.validate.types",
    "GraphcheckError": "graphcheck.errors",
    "UsageError": "graphcheck.errors",
    "ModelError": "graphcheck.errors",
    "DeviceError": "graphcheck.errors",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, imported or not, and those that every module has."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


class _Called(ModuleType):
    """A package that is called like the public function of the same name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(_HOMES[name]), name)(*args, **kwargs)


class _Root(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        # Importing graphcheck.validate puts the package where the function is looked up.
        if name in _HOMES and isinstance(value, ModuleType):
            value.__class__ = _Called
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Root
