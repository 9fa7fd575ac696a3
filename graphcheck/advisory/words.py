"""Advisories and probe results in words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from graphcheck.advisory.types import Advisory, ProbeResult

__all__ = ["describe", "outcome_line"]

_WIDTH = 98


def outcome_line(result: ProbeResult | None) -> str:
    """`wrong: kept output / x = 1`, `not run: reason`, or `not probed yet`."""
    if result is None:
        return "not probed yet"
    told = result.figure or result.detail
    return f"{result.outcome}: {told}" if told else result.outcome


def describe(advisory: Advisory, result: ProbeResult | None = None, width: int = _WIDTH) -> str:
    """The whole advisory as text lines, with what its probe saw on this machine."""
    lines = [f"{advisory.id}: {advisory.title}", ""]
    lines += _field(width, "what", advisory.what)
    lines += _field(width, "consequence", advisory.consequence)
    lines += _field(width, "ops", ", ".join(advisory.ops) or advisory.concerns.replace("_", " "))
    lines += _field(width, "kernels", ", ".join(advisory.kernels))
    lines += _field(width, "affected", f"executorch {advisory.affected or 'any version'}")
    lines += _field(width, "fixed in", advisory.fixed_in or "no release known")
    for outcome in ("wrong", "right"):
        versions = [entry.version for entry in advisory.verified if entry.outcome == outcome]
        if versions:
            lines += _field(width, f"measured {outcome}", ", ".join(versions))
    lines += _field(width, "reported by", advisory.rule)
    lines += _field(width, "on this machine", _machine(advisory, result))
    lines += _list(width, "evidence", advisory.evidence)
    lines += _list(width, "references", advisory.references)
    if advisory.patches:
        lines += _field(width, "patches", ", ".join(advisory.patches))
    lines += _list(width, "mends", (_mend(mend) for mend in advisory.mends))
    return "\n".join(lines)


def _machine(advisory: Advisory, result: ProbeResult | None) -> str:
    if not advisory.probe:
        return "cannot be probed"
    return f"{outcome_line(result)} (probe {advisory.probe})"


def _mend(mend: object) -> str:
    assert isinstance(mend, dict)
    exact = "exact" if mend["exact"] else "not the same function"
    text = f"{mend['kind']} {mend['name']} ({exact}): {mend['description']}"
    return f"{text}: `{mend['command']}`" if mend["command"] else text


def _field(width: int, name: str, text: str) -> list[str]:
    return textwrap.wrap(f"{name}: {text}", width, subsequent_indent="    ", break_on_hyphens=False)


def _list(width: int, name: str, entries: Iterable[str]) -> list[str]:
    wrapped = [
        line
        for entry in entries
        for line in textwrap.wrap(
            entry, width, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False
        )
    ]
    return [f"{name}:", *wrapped] if wrapped else []
