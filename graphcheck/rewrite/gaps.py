"""Findings that no rewrite mends, so that an export would refuse the model: they say so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from graphcheck.graph.types import JointGraph, OpCall
from graphcheck.rewrite.interface import rewrites_for
from graphcheck.rewrite.random import DRAWS
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["is_gap", "with_gaps"]

_GAP = "by hand"
_FAMILIES = ("GC1", "GC2", "GC3")
_REWRITES = ("rewrite", "layout")
# What `export --deterministic-dropout` takes from an input.
_DRAWN = frozenset(name.rpartition(".")[0] for name in DRAWS)


def is_gap(finding: Finding) -> bool:
    """Whether `with_gaps` found that nothing rewrites what the finding is about."""
    return any(mend.kind == "edit" and mend.name == _GAP for mend in finding.mends)


def with_gaps(findings: Iterable[Finding], graph: JointGraph) -> tuple[Finding, ...]:
    """The findings; those that stop an export say so, and what there is to do instead.

    An op is rewritten by itself, or else with the op of the forward pass that it comes from.
    """
    calls = {call.node: call for call in graph.calls}
    return tuple(
        replace(finding, mends=(*finding.mends, _mend(finding)))
        if _stops(finding, [calls[node] for node in finding.nodes if node in calls])
        else finding
        for finding in findings
    )


def _stops(finding: Finding, calls: Sequence[OpCall]) -> bool:
    if finding.family not in _FAMILIES or finding.severity is Severity.NOTE:
        return False
    if any(mend.kind in _REWRITES for mend in finding.mends):
        return False
    # Of a program nobody knows which op of the model a call comes from.
    if not calls or not all(call.origin for call in calls):
        return False
    # What a rewrite makes of arguments that a kernel refuses is seen when it is tried.
    if finding.family != "GC1" and any(rewrites_for(call.qualified) for call in calls):
        return False
    before = [rewrite for call in calls for rewrite in rewrites_for(call.origin)]
    return not any(rewrite.stage == "forward" for rewrite in before)


def _mend(finding: Finding) -> Mend:
    ways = ["use other ops here"]
    if any(mend.kind == "swap" for mend in finding.mends):
        ways = ["swap the module"]
    if finding.backward:
        ways.append("freeze what is trained before it")
    if finding.subject in _DRAWN:
        ways.append("make the draws inputs with --deterministic-dropout")
    ways.append("give a kernel of your own with --kernel-library")
    told = f"{', '.join(ways[:-1])} or {ways[-1]}"
    return Mend("edit", _GAP, f"no rewrite covers it, so export refuses the model: {told}", False)
