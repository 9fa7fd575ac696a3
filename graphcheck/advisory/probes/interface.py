"""The form every probe has, and the registry that finds the probes.

A probe is one file of this package that defines `PROBE = Probe(...)`. It measures and it judges,
apart from each other, so that a healthy kernel can be sent the same way as the one in question.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["Figures", "Judgement", "Load", "Probe", "Run", "all_probes", "digest", "probe_names"]

Run = Callable[..., Sequence[Any]]
"""A loaded program: takes tensors, gives its outputs. Memory of a run is that of the run before."""

Load = Callable[[Callable[..., Any], Sequence[Any]], Run]
"""Makes a program of an operation on tensors and example inputs, and loads it."""

Figures = Mapping[str, float]
"""What was measured, by name."""


@dataclass(frozen=True)
class Judgement:
    """`wrong`, and the measured figure in words."""

    wrong: bool
    figure: str


@dataclass(frozen=True)
class Probe:
    """`measure` runs a program through `load`; `judge` looks at its figures alone.

    `summary` says what is done. `alone` asks for a process of its own, for what may damage memory.
    A figure that is missing is a KeyError, never an answer.
    """

    summary: str
    measure: Callable[[Load], Figures]
    judge: Callable[[Figures], Judgement]
    alone: bool = False


def probe_names() -> tuple[str, ...]:
    """The names of all probes (their files), without importing them."""
    import graphcheck.advisory.probes as package

    names = {module.name for module in pkgutil.iter_modules(package.__path__)}
    return tuple(sorted(names - {"interface", "kit"}))


@lru_cache(maxsize=1)
def all_probes() -> dict[str, Probe]:
    """Every probe by name. None of them imports torch before it measures."""
    prefix = "graphcheck.advisory.probes"
    return {name: importlib.import_module(f"{prefix}.{name}").PROBE for name in probe_names()}


def digest(name: str) -> str:
    """A short hash of the source of a probe, so that a changed probe is run again."""
    folder = Path(__file__).parent
    state = hashlib.sha256()
    for file in ("interface.py", "kit.py", f"{name}.py"):
        state.update((folder / file).read_bytes())
    return state.hexdigest()[:16]
