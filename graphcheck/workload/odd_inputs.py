"""Example inputs that forward cannot take: values that are no tensors, a dict of other names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from graphcheck.errors import ModelError
from graphcheck.workload.example_inputs import parameter_names, shown_forward
from graphcheck.workload.with_loss import argument_names

__all__ = ["explained_inputs", "no_tensors", "taken_whole"]

_OF_A_TYPE = (TypeError, AttributeError)
"""What Python code raises on a value of another type than it is written for."""


def no_tensors(
    module: Any, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """What is said of inputs that are no tensors (GC009), with what to do."""
    import torch
    from torch.utils import _pytree

    arguments = [*zip(argument_names(module, len(inputs)), inputs, strict=True), *kwargs.items()]
    for name, value in arguments:
        for path, leaf in _pytree.tree_flatten_with_path(value)[0]:
            if isinstance(leaf, torch.Tensor):
                continue
            shown = f"{name}{_pytree.keystr(path)}"
            kind = type(leaf).__name__
            if kind == "ndarray":
                hint = f"Pass torch.from_numpy({shown})."
            elif leaf is None:
                hint = f"Leave {name} out and let forward have a default for it."
            elif isinstance(leaf, bool | int | float | str):
                hint = (
                    f"Store {name} in the model when it is built, or give it a default and leave "
                    f"it out; a number that changes must be a tensor."
                )
            else:
                hint = "Pass its tensors one by one."
            what = "None" if leaf is None else f"of type {kind}{_value_of(leaf)}"
            yield f"Input `{shown}` of forward is {what}, not a tensor.", hint


def _value_of(leaf: Any) -> str:
    if not isinstance(leaf, bool | int | float | str):
        return ""
    text = repr(leaf)
    return f" ({text if len(text) <= 40 else text[:37] + '...'})"


def taken_whole(given: Any, inputs: tuple[Any, ...]) -> bool:
    """Whether a dict of example inputs is one argument, since forward has no such names."""
    return isinstance(given, Mapping) and len(inputs) == 1 and inputs[0] is given


@contextlib.contextmanager
def explained_inputs(
    module: Any, given: Any, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[None]:
    """Where forward fails on values of a wrong type, say that the inputs are of a wrong type.

    Raises ModelError: GC002 for a dict whose names are not those of forward, GC009 for a value
    that is no tensor.
    """
    try:
        yield
    except ModelError as error:
        if not isinstance(error.__cause__, _OF_A_TYPE):
            raise
        if taken_whole(given, inputs):
            own = parameter_names(module)
            names = ", ".join(repr(str(name)) for name in given)
            wrong = f"has no argument {names}" if given else "got an empty dict"
            raise ModelError(
                f"{shown_forward(module)} {wrong}, so that the dict itself was given as its one "
                f"positional argument{f' {own[0]}' if own else ''}, and forward raised "
                f"{type(error.__cause__).__name__}.",
                f"Name the arguments of forward in the dict ({', '.join(map(repr, own))}), or "
                "pass a tensor or a tuple of tensors.",
                "GC002",
            ) from error
        told = next(no_tensors(module, inputs, kwargs), None)
        if told is None:
            raise
        raise ModelError(*told, "GC009") from error
