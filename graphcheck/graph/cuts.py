"""Where a parameter without gradient is cut off from the loss: a detach, a region without grad."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphcheck.graph.provenance import Provenance
from graphcheck.graph.trace import Traced
from graphcheck.graph.types import Source
from graphcheck.workload.types import Workload

__all__ = ["cuts"]


def cuts(traced: Traced, workload: Workload) -> dict[str, tuple[str, Source]]:
    """What cuts off each parameter that gets no gradient, and its line, where it was found.

    Keys are the names of the module's parameters; the words are `detach()` and `no_grad`.
    """
    if not traced.no_gradient:
        return {}
    provenance = Provenance(traced.exported, workload.prefix, workload.root_type)
    placeholders = {
        name: placeholder
        for placeholder, name in traced.exported.graph_signature.inputs_to_parameters.items()
    }
    nodes = {node.name: node for node in traced.exported.graph.nodes}
    found = {}
    for name in traced.no_gradient:
        start = nodes.get(placeholders.get(name, ""))
        cut = _first_cut(start, traced.exported.graph_module, provenance) if start else None
        if cut is not None:
            found[name] = cut
    return found


def _first_cut(start: Any, root: Any, provenance: Provenance) -> tuple[str, Source] | None:
    """The first cut in order of execution on any way from a node; None for one without a line."""
    reached = {start}
    for node in start.graph.nodes:
        if node in reached or not reached.intersection(node.all_input_nodes):
            continue
        word, where = _cut(node, root)
        if not word:
            reached.add(node)
            continue
        source = provenance.source(node) if where is node else _inside(where, provenance)
        if source.line:
            return word, source
    return None


def _cut(node: Any, root: Any) -> tuple[str, Any]:
    """What a node cuts by, and the nodes that say where; "" for one that does not cut."""
    name = str(node.target)
    if name.startswith("aten.detach"):
        return "detach()", node
    if name == "wrap_with_set_grad_enabled" and node.args[0] is False:
        region = getattr(root, str(node.args[1].target), None)
        return "no_grad", region.graph.nodes if region is not None else ()
    return "", None


def _inside(nodes: Iterable[Any], provenance: Provenance) -> Source:
    """The source of the first node of a region that has one."""
    for node in nodes:
        source = provenance.of_exported(node)
        if source.line:
            return source
    return Source(module="")
