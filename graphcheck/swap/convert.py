"""Module forms that several swaps share."""

from __future__ import annotations

import copy
from typing import Any

from graphcheck.swap.interface import Made, ModuleForm, Unfit

__all__ = ["as_layer"]


def as_layer(names: dict[str, str], what: str) -> ModuleForm:
    """A module form that makes a layer of `graphcheck.layers` with the same attributes.

    `names` maps classes of torch.nn to layers. Parameters are the same tensors, and hooks stay.
    `what` says what was done.
    """

    def make(module: Any, argument: str) -> Made:
        import graphcheck.layers as layers

        # The layer is a subclass of the module's class: its attributes are all it needs.
        made = copy.copy(module)
        made.__class__ = getattr(layers, names[type(module).__name__])
        check = getattr(made, "_check", None)
        if check is not None:
            try:
                check()
            except ValueError as error:
                raise Unfit(str(error)) from None
        return Made(made, what)

    return make
