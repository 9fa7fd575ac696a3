"""Whether an exported graph writes a tensor: directly, through views, or in a graph inside it."""

from __future__ import annotations

from typing import Any

__all__ = ["is_written"]

_STATISTICS = ("running_mean", "running_var")
"""What batch norms write without saying so in their schema."""


def is_written(tensor: Any) -> bool:
    """Whether something in the graph writes the memory of this node."""
    same, left = {tensor}, [tensor]
    while left:
        node = left.pop()
        for user in node.users:
            if _writes(user, node):
                return True
            if user not in same and _is_view(user, node):
                same.add(user)
                left.append(user)
    return False


def _writes(node: Any, tensor: Any) -> bool:
    import torch

    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return any(map(is_written, _inside(node, tensor)))
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return any(
        _holds(value, tensor)
        and (argument.name in _STATISTICS or bool(getattr(argument.alias_info, "is_write", False)))
        for argument, value in _given(node)
    )


def _is_view(node: Any, tensor: Any) -> bool:
    import torch

    if not isinstance(node.target, torch._ops.OpOverload):
        # One of several results.
        return bool(node.op == "call_function" and node.args[:1] == (tensor,))
    # A list of views (split, unbind) tells of its entries only that they alias something.
    if all(value.alias_info is None for value in node.target._schema.returns):
        return False
    return any(
        _holds(value, tensor) and argument.alias_info is not None
        for argument, value in _given(node)
    )


def _given(node: Any) -> list[tuple[Any, Any]]:
    arguments = node.target._schema.arguments
    named = {argument.name: argument for argument in arguments}
    given = list(zip(arguments, node.args, strict=False))
    return given + [(named[name], v) for name, v in node.kwargs.items() if name in named]


def _holds(value: Any, tensor: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds(item, tensor) for item in value)
    return value is tensor


def _inside(node: Any, tensor: Any) -> list[Any]:
    """The nodes that the tensor is in the graphs which an operator of control flow runs."""
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves([list(node.args), dict(node.kwargs)])
    graphs = [
        getattr(node.graph.owning_module, leaf.target)
        for leaf in leaves
        if isinstance(leaf, torch.fx.Node) and leaf.op == "get_attr"
    ]
    found = []
    for module in graphs:
        inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
        # The operands come last.
        operands = leaves[len(leaves) - len(inputs) :]
        found += [n for n, operand in zip(inputs, operands, strict=True) if operand is tensor]
    return found
