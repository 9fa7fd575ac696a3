"""Tied weights of an exported program: one parameter again, as the module has it.

Non-strict `torch.export` (2.14) gives each name of a tied parameter an input of its own. All uses
read one of them, so the others would be parameters without gradient, and a step would move but one.
Strict export keeps the first name alone.
"""

from __future__ import annotations

from typing import Any

from graphcheck.graph.facts import tied_parameters

__all__ = ["merge_tied_"]


def merge_tied_(exported: Any, module: Any) -> None:
    """Let every use of a tied parameter read the input of its first name, and drop the others."""
    first = {alias: name for name, rest in tied_parameters(module).items() for alias in rest}
    signature, graph = exported.graph_signature, exported.graph_module.graph
    inputs = {name: node for node, name in signature.inputs_to_parameters.items()}
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    dropped = set()
    for alias, name in first.items():
        if alias not in inputs or name not in inputs:
            continue
        node = nodes[inputs[alias]]
        node.replace_all_uses_with(nodes[inputs[name]])
        graph.erase_node(node)
        dropped.add(node.name)
    if dropped:
        signature.input_specs[:] = [
            spec for spec in signature.input_specs if spec.arg.name not in dropped
        ]
        exported.graph_module.recompile()
