"""Which advisories a graph gives reason to look at."""

from __future__ import annotations

from collections.abc import Iterable

from graphcheck.advisory.load import all_advisories
from graphcheck.advisory.terms import in_bounds
from graphcheck.advisory.types import Advisory
from graphcheck.graph.types import JointGraph, OpCall
from graphcheck.opset.conditions import matches

__all__ = ["applies", "needed"]

_HALF = ("bfloat16", "float16")


def applies(advisory: Advisory, call: OpCall) -> bool:
    """Whether the fault concerns this call for certain: its op, its arguments, its sizes."""
    return (
        call.op in advisory.ops
        and matches(advisory.when, call)
        and in_bounds(advisory.reduction, call)
    )


def needed(graph: JointGraph, advisories: Iterable[Advisory] | None = None) -> tuple[str, ...]:
    """The ids of the advisories that concern this graph: those whose probes are worth a run."""
    given = all_advisories() if advisories is None else advisories
    return tuple(advisory.id for advisory in given if _concerns(advisory, graph))


def _concerns(advisory: Advisory, graph: JointGraph) -> bool:
    if advisory.concerns == "mutated_buffers":
        return any(buffer.mutated for buffer in graph.buffers)
    if advisory.concerns == "half_parameters":
        return any(p.trainable and p.dtype in _HALF for p in graph.parameters)
    return any(applies(advisory, alike[0]) for alike in graph.alike)
