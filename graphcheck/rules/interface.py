"""The form every rule has, and the registry that finds the rules.

A rule is one file of this package, `gcNNN_name.py`, that defines `RULE = Rule(...)`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from graphcheck.graph.types import JointGraph
from graphcheck.rules.types import Finding, Severity

if TYPE_CHECKING:
    from graphcheck.advisory.types import Advisory, ProbeResult
    from graphcheck.opset.types import Opset

__all__ = ["Context", "Rule", "all_rules", "rule_by_code"]


@dataclass(frozen=True)
class Context:
    """What a rule may consult besides the graph."""

    opset: Opset
    advisories: tuple[Advisory, ...] = ()
    probes: Mapping[str, ProbeResult] = field(default_factory=dict)
    """Result of each advisory's probe on the installed runtime, by advisory id."""
    library_probes: Mapping[str, ProbeResult] = field(default_factory=dict)
    """The same with the opset's kernel libraries loaded, for advisories on what they run."""
    options: Mapping[str, Any] = field(default_factory=dict)
    found: tuple[Finding, ...] = ()
    """Findings of the rules with a smaller code: rules run in order of code."""


def _no_check(graph: JointGraph, context: Context) -> Iterator[Finding]:
    return iter(())


@dataclass(frozen=True)
class Rule:
    """A rule: its code, what it looks for and why, and its check.

    `check` yields one finding per op call; deduplication happens afterwards. Rules of family GC0
    have no check: they are raised while loading, exporting and tracing.
    """

    code: str
    name: str
    severity: Severity
    summary: str
    explanation: str
    example: str = ""
    check: Callable[[JointGraph, Context], Iterator[Finding]] = _no_check


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """Every rule of this package, in order of code. Raises ValueError on a doubled code."""
    import graphcheck.rules as package

    rules: dict[str, Rule] = {}
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("gc"):
            continue
        rule = importlib.import_module(f"{package.__name__}.{module.name}").RULE
        if rule.code in rules:
            raise ValueError(f"two rules have the code {rule.code}")
        rules[rule.code] = rule
    return tuple(rules[code] for code in sorted(rules))


def rule_by_code(code: str) -> Rule | None:
    """The rule of this code (case is ignored), or None."""
    return next((rule for rule in all_rules() if rule.code == code.upper()), None)
