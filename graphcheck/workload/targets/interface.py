"""The form every kind of target has, and the registry that finds the kinds.

A kind is one file of this package that defines `KIND = TargetKind(...)`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from graphcheck.errors import UsageError
from graphcheck.workload.request import WorkloadRequest

__all__ = ["Loaded", "TargetKind", "all_kinds", "kind_of"]


@dataclass(frozen=True)
class Loaded:
    """What a target offers.

    `inputs` are example inputs as the target gave them (tensor, tuple, list or dict), None when it
    gave none; `default_inputs` are specifications to fall back on. `loss` is a loss function
    called with output and targets, or None. `prediction_shape` is the shape of the model's
    (main) prediction for given inputs, where the target knows it without a run.
    `trained_with` is the name of the loss such a model is usually trained with, and `sequence`
    whether a list it returns is a series of ever better estimates of one thing.
    `folder` is where the user's own code lives. `exported` is the exported program that the target
    is, instead of a module that is to be exported; `joint` whether it has the backward pass.
    """

    module: Any
    inputs: Any = None
    loss: Any = None
    targets: Any = None
    file: str = ""
    folder: str = ""
    guesses: tuple[str, ...] = ()
    default_inputs: tuple[str, ...] = ()
    prediction_shape: Callable[[tuple[Any, ...]], tuple[int, ...]] | None = None
    trained_with: str = ""
    sequence: bool = False
    exported: Any = None
    joint: bool = False


@dataclass(frozen=True)
class TargetKind:
    """A kind of target: how it is written, which strings are meant, how it is loaded."""

    name: str
    form: str
    matches: Callable[[str], bool]
    load: Callable[[WorkloadRequest], Loaded]


@lru_cache(maxsize=1)
def all_kinds() -> tuple[TargetKind, ...]:
    """Every kind of target, in order of name."""
    import graphcheck.workload.targets as package

    kinds = [
        module.KIND
        for info in pkgutil.iter_modules(package.__path__)
        if hasattr(module := importlib.import_module(f"{package.__name__}.{info.name}"), "KIND")
    ]
    return tuple(sorted(kinds, key=lambda kind: kind.name))


def kind_of(target: str) -> TargetKind:
    """The kind of a target. Raises UsageError when no kind, or more than one, claims it."""
    claims = [kind for kind in all_kinds() if kind.matches(target)]
    if len(claims) == 1:
        return claims[0]
    forms = ", ".join(kind.form for kind in all_kinds())
    why = "can be read in two ways" if claims else "is no target that graphcheck knows"
    raise UsageError(f"{target!r} {why}.", f"Give one of: {forms}.")
