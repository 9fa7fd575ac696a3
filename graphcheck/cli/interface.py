"""The form every verb has, and the registry that finds the verbs.

A verb is one file of `graphcheck.cli.verbs` that defines `VERB = Verb(...)`. Its functions return
an exit code and print through `graphcheck.cli.output`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import typer

__all__ = ["Verb", "all_verbs"]


@dataclass(frozen=True)
class Verb:
    """One verb; `register` adds it to the application. `order` is its place in the help."""

    name: str
    order: int
    register: Callable[[typer.Typer], None]


def all_verbs() -> tuple[Verb, ...]:
    """Every verb, in the order of the help. Raises ValueError when two share a name."""
    import graphcheck.cli.verbs as package

    verbs: dict[str, Verb] = {}
    for module in pkgutil.iter_modules(package.__path__):
        verb = importlib.import_module(f"{package.__name__}.{module.name}").VERB
        if verb.name in verbs:
            raise ValueError(f"two verbs have the name {verb.name}")
        verbs[verb.name] = verb
    return tuple(sorted(verbs.values(), key=lambda verb: (verb.order, verb.name)))
