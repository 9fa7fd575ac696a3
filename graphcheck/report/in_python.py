"""What to call on a live module in place of a command, which could not name it."""

from __future__ import annotations

import shlex
from typing import Any

__all__ = ["in_python"]

_MANY = {"--freeze": "freeze", "--swap": "swaps", "--rewrite": "rewrite", "--on": "on"}
_ONE = {"--timeout": "timeout", "--steps": "steps", "--learning-rate": "learning_rate"}
_OPTIONS = {"check": "CheckOptions", "validate": "ValidateOptions", "export": "ExportOptions"}
"""Of graphcheck.options and graphcheck.export.types."""


def in_python(command: str, loss: Any = None, targets: Any = None) -> str:
    """The call that does what the command says, with the loss and the targets that were given."""
    verb, target, *words = shlex.split(command.removeprefix("graphcheck ")) or ("", "")
    if verb not in _OPTIONS:
        return command
    many: dict[str, tuple[str, ...]] = {}
    options: dict[str, str] = {}
    arguments = ["module", "inputs"]
    shown = {"targets": "targets"}
    rest = iter(words)
    for word in rest:
        if word == "--shadow":
            options["shadow"] = "True"
        elif word == "-o":
            arguments.append(repr(next(rest)))
        elif word == "--data":
            # It reads a file, which a call on a live module does not.
            next(rest)
            arguments[1] = "other_inputs"
            shown["targets"] = "other_targets"
        elif word in _ONE:
            options[_ONE[word]] = next(rest)
        elif word in _MANY:
            name = _MANY[word]
            many[name] = (*many.get(name, ()), next(rest))
            options[name] = repr(many[name])
    if loss is not None:
        arguments.append(f"loss={loss!r}" if isinstance(loss, str) else "loss=loss")
    if targets is not None:
        arguments.append(f"targets={shown['targets']}")
    if options:
        told = ", ".join([repr(target), *(f"{name}={value}" for name, value in options.items())])
        arguments.append(f"options={_OPTIONS[verb]}({told})")
    return f"graphcheck.{verb}({', '.join(arguments)})"
