"""Facts of the example data that no shape tells: how large means are where variances are taken."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["measure"]

_NORMS = (
    "aten::native_group_norm",
    "aten::native_layer_norm",
    "aten::_native_batch_norm_legit.no_stats",
)
_EXACT_FROM = 256
"""LayerNorm over this many elements takes no part in the cancellation (GCA-2026-0004)."""


def measure(joint_module: Any, args: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Run the joint graph as far as the last normalisation, and describe the inputs of each.

    `args` are the real tensors of the placeholders, in order. The result maps the name of each
    group norm, layer norm (below 256 elements) and batch norm without running statistics to
    `elements` of a group, and `mean`, `std`, `ratio` = |mean| / sqrt(variance + eps) of the group
    whose ratio is largest. Statistics are taken in float64. A group that holds NaN or infinity is
    left out, since its training is lost anyway. Costs one forward pass; the graph is not changed.
    An op that cannot be run in eager ends the run: the norms behind it have no facts.
    """
    import torch

    nodes = list(joint_module.graph.nodes)
    norms = [node for node in nodes if _is_norm(node)]
    if not norms:
        return {}
    wanted = _ancestors(norms)
    last_use = {
        argument: node for node in nodes if node in wanted for argument in node.all_input_nodes
    }
    interpreter = torch.fx.Interpreter(joint_module, garbage_collect_values=False)
    interpreter.args_iter = iter(args)
    facts: dict[str, dict[str, Any]] = {}
    last = norms[-1]
    # Random ops of the model must not change what the caller draws next.
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for node in nodes:
            if node.op == "placeholder":
                interpreter.env[node] = next(interpreter.args_iter)
            elif node in wanted:
                if _is_norm(node) and interpreter.env[node.args[0]].numel():
                    facts[node.name] = _facts(node, interpreter.env[node.args[0]])
                if node is last:
                    break
                try:
                    interpreter.env[node] = interpreter.run_node(node)
                except Exception:
                    break
                for argument in node.all_input_nodes:
                    if last_use.get(argument) is node:
                        interpreter.env.pop(argument, None)
    return facts


def _is_norm(node: Any) -> bool:
    import torch

    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    name = node.target.name()
    if name == "aten::native_layer_norm":
        return math.prod(int(size) for size in node.args[1]) < _EXACT_FROM
    return name in _NORMS


def _ancestors(nodes: Sequence[Any]) -> set[Any]:
    """These nodes and all they depend on."""
    found: set[Any] = set()
    open_nodes = list(nodes)
    while open_nodes:
        node = open_nodes.pop()
        if node not in found:
            found.add(node)
            open_nodes.extend(node.all_input_nodes)
    return found


def _facts(node: Any, value: Any) -> dict[str, Any]:
    groups, eps = _groups(node, value)
    groups = groups.double()
    mean = groups.mean(1)
    variance = groups.var(1, correction=0)
    ratio = mean.abs() / (variance + eps).sqrt()
    ratio = ratio.where(ratio.isfinite(), ratio.new_zeros(()))
    worst = int(ratio.argmax())
    return {
        "elements": int(groups.shape[1]),
        "mean": float(mean[worst]),
        "std": float(variance[worst].sqrt()),
        "ratio": float(ratio[worst]),
    }


def _groups(node: Any, value: Any) -> tuple[Any, float]:
    """The input as rows that are normalised together, and eps."""
    name = node.target.name()
    given = dict(_named(node))
    if name == "aten::native_layer_norm":
        return value.reshape(-1, math.prod(given["normalized_shape"])), float(given["eps"])
    if name == "aten::native_group_norm":
        return value.reshape(value.shape[0] * int(given["group"]), -1), float(given["eps"])
    return value.transpose(0, 1).reshape(value.shape[1], -1), float(given["eps"])


def _named(node: Any) -> Iterator[tuple[str, Any]]:
    for position, argument in enumerate(node.target._schema.arguments):
        if position < len(node.args):
            yield argument.name, node.args[position]
        else:
            yield argument.name, node.kwargs.get(argument.name, argument.default_value)
