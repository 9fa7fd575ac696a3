"""Tied weights as functional reuse: one name for the tensor, used twice in forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from graphcheck.swap.interface import Swap
from graphcheck.swap.source import LAYERS

if TYPE_CHECKING:
    import libcst as cst

    from graphcheck.swap.source import Editor

__all__ = ["SWAP"]


def _reuse(
    root: Any, argument: str, chosen: Callable[[str], bool]
) -> Iterable[tuple[str, str, str]]:
    """The first module with the weight owns it; linear layers after it use that."""
    from torch import nn

    from graphcheck.layers import TiedLinear

    owners: dict[int, tuple[str, Any]] = {}
    for path, module in list(root.named_modules()):
        weight = module._parameters.get("weight")
        if weight is None:
            continue
        owner_path, owner = owners.setdefault(id(weight), (path, module))
        if owner is module or not chosen(path):
            continue
        if type(module) is not nn.Linear:
            yield path, "", "only a linear layer can use the weight of another"
            continue
        tied = TiedLinear(module, owner)
        tied.train(module.training)
        parent, _, name = path.rpartition(".")
        setattr(root.get_submodule(parent), name, tied)
        yield path, f"uses {owner_path}.weight; {path}.weight leaves the state dict", ""


def _statement(node: cst.Assign, editor: Editor) -> cst.Assign | None:
    """`self.out.weight = self.embed.weight` as `self.out = TiedLinear(self.out, self.embed)`."""
    import libcst as cst

    if len(node.targets) != 1:
        return None
    target, value = node.targets[0].target, node.value
    if not (isinstance(target, cst.Attribute) and isinstance(value, cst.Attribute)):
        return None
    if target.attr.value != "weight" or value.attr.value != "weight":
        return None
    if not isinstance(target.value, cst.Attribute) or not isinstance(value.value, cst.Attribute):
        return None
    made = cst.Call(
        editor.name(LAYERS, "TiedLinear"), [cst.Arg(target.value), cst.Arg(value.value)]
    )
    return node.with_changes(
        targets=[node.targets[0].with_changes(target=target.value)], value=made
    )


SWAP = Swap(name="tied-weights-as-reuse", whole=_reuse, statement=_statement)
