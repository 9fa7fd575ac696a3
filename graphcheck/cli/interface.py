"""The form every verb has, and the registry that finds the verbs.

A verb is one file of `graphcheck.cli.verbs`, of its name, that defines `VERB = Verb(...)`. Its
functions return an exit code and print through `graphcheck.cli.output`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import typer

__all__ = ["Verb", "all_verbs", "verb_names", "verbs_for"]


@dataclass(frozen=True)
class Verb:
    """One verb; `register` adds it to the application. `order` is its place in the help."""

    name: str
    order: int
    register: Callable[[typer.Typer], None]


def verb_names() -> tuple[str, ...]:
    """The names of all verbs, by the alphabet; none is imported for it."""
    import graphcheck.cli.verbs as package

    return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__)))


def verbs_for(name: str) -> tuple[Verb, ...]:
    """The verb of that name alone, or all of them where there is none."""
    return (_verb(name),) if name in verb_names() else all_verbs()


def all_verbs() -> tuple[Verb, ...]:
    """Every verb, in the order of the help. Raises ValueError for one in a file of another name."""
    return tuple(sorted(map(_verb, verb_names()), key=lambda verb: (verb.order, verb.name)))


def _verb(name: str) -> Verb:
    verb: Verb = importlib.import_module(f"graphcheck.cli.verbs.{name}").VERB
    if verb.name != name:
        raise ValueError(f"the verb {verb.name} is in a file named {name}")
    return verb
