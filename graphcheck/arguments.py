"""Arguments of the public functions: a wrong type is a UsageError, not an error of Python."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable
from typing import Any, TypeVar

from graphcheck.errors import UsageError
from graphcheck.options import CheckOptions

__all__ = ["checked_module", "checked_options", "names_of", "path_of"]

Options = TypeVar("Options", bound=CheckOptions)


def checked_module(module: Any) -> Any:
    """The module. Raises UsageError for anything else."""
    from torch import nn

    if not isinstance(module, nn.Module):
        raise UsageError(
            f"The model is of type {type(module).__name__}, not a torch.nn.Module.",
            "Pass the module itself.",
        )
    return module


def names_of(value: Any, argument: str, example: str) -> tuple[str, ...]:
    """One name or several, as a tuple. Raises UsageError for what is no name."""
    if isinstance(value, str):
        return (value,)
    hint = f"Pass a string or a list of strings, for instance {argument}=[{example!r}]."
    if not isinstance(value, Iterable):
        raise UsageError(f"{argument} is of type {type(value).__name__}, not names.", hint)
    names = tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"{argument} holds {name!r}, which is not a name.", hint)
    return names


def path_of(value: Any, argument: str, example: str) -> str:
    """A path as a string. Raises UsageError."""
    try:
        path = os.fspath(value)
    except TypeError:
        path = b""
    if not isinstance(path, str):
        raise UsageError(
            f"{argument} is of type {type(value).__name__}, not a path.",
            f"Pass a string or a pathlib.Path, for instance {example!r}.",
        )
    return path


def checked_options(options: Any, kind: type[Options], function: str) -> Options:
    """Options with values of the right types, lists made tuples. Raises UsageError."""
    import msgspec

    if not isinstance(options, kind):
        raise UsageError(
            f"options of {function} is of type {type(options).__name__}, not {kind.__name__}.",
            f"Pass {kind.__module__}.{kind.__name__}(target=...), or leave options out.",
        )
    try:
        return msgspec.convert(_plain(vars(options)), type=type(options))
    except msgspec.ValidationError as error:
        text = str(error).replace("array`", "list`").replace("null`", "None`").replace("`", "")
        what, _, where = text.partition(" - at $")
        raise UsageError(
            f"options{where} of {function} cannot be used: {what[:1].lower()}{what[1:]}.",
            f"The values are described in {kind.__module__}.{kind.__name__}.",
        ) from error


def _plain(value: Any) -> Any:
    """Values as they are written in JSON: paths are strings, numbers those of Python."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value
