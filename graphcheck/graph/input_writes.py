"""Inputs that forward writes into (`x.sub_(x.mean())`).

The joint graph of such a model gives the new input back as an output before the loss, so that an
app which takes output 0 for the loss takes the input. The program works on a copy instead: it
computes the same, and the app's own tensor stays as it is.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

__all__ = ["copy_inputs_", "written_inputs"]


def written_inputs(joint: Any) -> tuple[str, ...]:
    """Names of the user inputs that a joint program writes."""
    return tuple(
        spec.target
        for spec in joint.graph_signature.output_specs
        if spec.kind.name == "USER_INPUT_MUTATION" and spec.target is not None
    )


def copy_inputs_(exported: Any, names: Container[str]) -> None:
    """Let everything in an exported program read copies of these inputs."""
    import torch

    graph = exported.graph_module.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    for node in inputs:
        if node.name not in names:
            continue
        with graph.inserting_after(inputs[-1]):
            copied = graph.call_function(torch.ops.aten.clone.default, (node,))
        copied.meta = {k: v for k, v in node.meta.items() if k in ("val", "tensor_meta")}
        node.replace_all_uses_with(copied, lambda user, own=copied: user is not own)
    exported.graph_module.recompile()
