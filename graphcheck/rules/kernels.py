"""What the rules on kernels (GC1, GC2) share: support of every call, mends, and the finding."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from graphcheck.errors import UsageError
from graphcheck.graph.types import JointGraph, OpCall
from graphcheck.opset.conditions import dim_order_kind, matches, tensors_of, validate
from graphcheck.opset.format import read
from graphcheck.opset.support import support
from graphcheck.opset.swaps import SwapEntry, swaps_for_module
from graphcheck.opset.types import Opset, Support
from graphcheck.resources import opsets_dir
from graphcheck.rules.types import Finding, Mend, Severity

__all__ = ["kernel_finding", "limit_findings", "mends_for", "supports"]


class _Entry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    op: str
    rules: list[str]
    kind: str
    name: str
    description: str
    exact: bool
    when: dict[str, Any] = {}


class _MendFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    schema: int
    mends: list[_Entry]


_COMMANDS = {"rewrite": "graphcheck export", "layout": "graphcheck export"}
_last: tuple[JointGraph, Opset, tuple[Support, ...]] | None = None


def supports(graph: JointGraph, opset: Opset) -> Iterator[tuple[OpCall, Support]]:
    """Every call with its support; computed once for all rules that ask for the same graph."""
    global _last
    if _last is None or _last[0] is not graph or _last[1] is not opset:
        answers = {
            id(call): answer
            for group in graph.alike
            for answer in (support(group[0], opset),)
            for call in group
        }
        _last = (graph, opset, tuple(answers[id(call)] for call in graph.calls))
    return iter(tuple(zip(graph.calls, _last[2], strict=True)))


@lru_cache(maxsize=1)
def _entries() -> tuple[_Entry, ...]:
    found: list[_Entry] = []
    for path in sorted((opsets_dir() / "mends").glob("*.yaml")):
        for entry in read(path, _MendFile).mends:
            where = f"{path}: mend {entry.name}"
            validate(entry.when, where)
            if entry.kind not in _COMMANDS:
                raise UsageError(f"{where}: kind: {entry.kind!r} is no kind of mend.")
            found.append(entry)
    return tuple(found)


def mends_for(call: OpCall, code: str) -> tuple[Mend, ...]:
    """The known mends of a finding `code` on this call: rewrites, then swaps of its module."""
    own = tuple(
        Mend(entry.kind, entry.name, entry.description, entry.exact, _COMMANDS[entry.kind])
        for entry in _entries()
        if entry.op in (call.qualified, "*")
        and code.startswith(tuple(entry.rules))
        and matches(entry.when, call)
        and not (entry.kind == "layout" and call.keeps_layout)
    )
    return own + tuple(
        Mend("swap", swap.name, f"{swap.into}: {swap.remark}", swap.exact, _fix(swap))
        for swap in swaps_for_module(call.source.module_type, call.op)
    )


def _fix(swap: SwapEntry) -> str:
    exact = swap.exact and not swap.asked
    return "graphcheck fix" if exact else f"graphcheck fix --swap {swap.name}"


def kernel_finding(
    call: OpCall,
    code: str,
    message: str,
    evidence: tuple[str, ...] = (),
    severity: Severity = Severity.ERROR,
    mends: tuple[Mend, ...] | None = None,
) -> Finding:
    """The finding `code` on one call. `message` follows the op's name, so it starts with a verb."""
    return Finding(
        code=code,
        severity=severity,
        subject=call.op,
        message=message,
        source=call.source,
        module=call.source.module,
        modules=(call.source.module,),
        backward=call.backward,
        evidence=evidence,
        mends=mends_for(call, code) if mends is None else mends,
        gradients=call.gradients,
        nodes=(call.node,),
    )


def limit_findings(graph: JointGraph, opset: Opset, code: str) -> Iterator[Finding]:
    """A finding for each call whose arguments are beyond a limit of this rule."""
    for call, found in supports(graph, opset):
        if found.limit is not None and found.limit.rule == code:
            wrong = found.limit.effect == "wrong"
            start = "is silently wrong here" if wrong else "is refused in the first step (0x12)"
            where = found.kernel or call.qualified
            evidence = (f"{where}, {found.limit.evidence}",) if found.limit.evidence else ()
            reason = found.reason
            if code == "GC205" or (code == "GC206" and "channels-last" not in reason):
                reason += _layouts(call)
            yield kernel_finding(call, code, f"{start}: {reason}", evidence)


def _layouts(call: OpCall) -> str:
    """` (here default and dim order 1, 0)`: the memory layouts that the call's tensors have."""
    names = {"contiguous": "default", "channels_last": "channels-last"}
    found: dict[str, None] = {}
    for tensor in tensors_of(call):
        kind = dim_order_kind(tensor)
        if kind is not None:
            order = f"dim order {', '.join(map(str, tensor.dim_order))}"
            found.setdefault(names.get(kind, order))
    told = sorted(found, key=lambda name: (name != "default", name))
    return f" (here {' and '.join(told)})" if told else ""
