"""Facts of the example data that no shape tells: the loss, and how large means are at norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["measure"]

_NORMS = (
    "aten::native_group_norm",
    "aten::native_layer_norm",
    "aten::_native_batch_norm_legit.no_stats",
)
_EXACT_FROM = 256
"""LayerNorm over this many elements takes no part in the cancellation (GCA-2026-0004)."""


def measure(joint_module: Any, args: Sequence[Any], loss: str = "") -> dict[str, dict[str, Any]]:
    """Run the joint graph as far as the loss and the last normalisation, and describe both.

    `args` are the real tensors of the placeholders, in order. The result maps the name of each
    group norm, layer norm (below 256 elements) and batch norm without running statistics to
    `elements` of a group, and `mean`, `std`, `ratio` = |mean| / sqrt(variance + eps) of the group
    whose ratio is largest. Statistics are taken in float64. A group that holds NaN or infinity is
    left out, since its training is lost anyway. The name of the node `loss` is mapped to its value,
    `loss`; where that is NaN or infinite, to `first`, the first node that is, too.

    Costs one forward pass; the graph is not changed. An op that cannot be run in eager ends the
    run: the norms behind it, and the loss, have no facts.
    """
    ends = [node for node in joint_module.graph.nodes if _is_norm(node) or node.name == loss]
    facts: dict[str, dict[str, Any]] = {}

    def before(node: Any, values: Mapping[Any, Any]) -> None:
        if _is_norm(node) and values[node.args[0]].numel():
            facts[node.name] = _facts(node, values[node.args[0]])

    def after(node: Any, value: Any) -> bool:
        if node.name == loss:
            facts[loss] = {"loss": float(value)}
        return False

    _run(joint_module, args, ends, before, after)
    value = facts.get(loss, {}).get("loss", 0.0)
    if not math.isfinite(value):
        facts[loss]["first"] = _first_such(joint_module, args, loss, value)
    return facts


def _first_such(joint_module: Any, args: Sequence[Any], loss: str, value: float) -> str:
    """The first node that the loss needs and that holds NaN, as the loss does, or infinity."""
    import torch

    such = torch.isnan if math.isnan(value) else torch.isinf
    ends = [node for node in joint_module.graph.nodes if node.name == loss]
    found = [loss]

    def after(node: Any, value: Any) -> bool:
        for leaf in torch.utils._pytree.tree_leaves(value):
            if isinstance(leaf, torch.Tensor) and bool(such(leaf).any()):
                found.append(node.name)
                return True
        return False

    _run(joint_module, args, ends, lambda node, values: None, after)
    return found[-1]


def _run(
    joint_module: Any,
    args: Sequence[Any],
    ends: Sequence[Any],
    before: Callable[[Any, Mapping[Any, Any]], None],
    after: Callable[[Any, Any], bool],
) -> None:
    """Run what leads to the nodes `ends`, as far as it runs, or until `after` says to stop."""
    import torch

    if not ends:
        return
    wanted = _ancestors(ends)
    nodes = [n for n in joint_module.graph.nodes if n in wanted or n.op == "placeholder"]
    last_use = {
        argument: node for node in nodes if node in wanted for argument in node.all_input_nodes
    }
    interpreter = torch.fx.Interpreter(joint_module, garbage_collect_values=False)
    interpreter.args_iter = iter(args)
    values = interpreter.env
    # Random ops of the model must not change what the caller draws next.
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for node in nodes:
            if node.op == "placeholder":
                values[node] = next(interpreter.args_iter)
            else:
                before(node, values)
                try:
                    values[node] = interpreter.run_node(node)
                except Exception:
                    return
            if node in wanted and after(node, values[node]):
                return
            for argument in node.all_input_nodes:
                if last_use.get(argument) is node:
                    values.pop(argument, None)


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
