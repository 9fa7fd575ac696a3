"""BatchNorm folded into the convolution or linear layer before it, for fine-tuning.

With statistics m, v and scale g, shift b: w' = w * g / sqrt(v + eps) for each output channel,
b' = (bias - m) * g / sqrt(v + eps) + b. The same function as in eval mode; from then on weight and
scale train as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

from graphcheck.swap.interface import Swap

__all__ = ["SWAP"]

_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")
_BEFORE = ("Conv1d", "Conv2d", "Conv3d", "Linear")


def _fold(
    root: Any, argument: str, chosen: Callable[[str], bool]
) -> Iterable[tuple[str, str, str]]:
    from torch import nn

    pairs = dict(_pairs(root))
    for path, norm in list(root.named_modules()):
        if type(norm).__name__ not in _NORMS or not chosen(path):
            continue
        before = pairs.get(path)
        if before is None:
            yield path, "", "no convolution or linear layer that feeds it alone was found"
            continue
        layer = root.get_submodule(before)
        if norm.running_mean is None:
            yield path, "", "it keeps no running statistics (track_running_stats=False)"
            continue
        _absorb(layer, norm)
        parent, _, name = path.rpartition(".")
        setattr(root.get_submodule(parent), name, nn.Identity())
        yield path, f"folded into {before}; nn.Identity stands in its place", ""


def _absorb(layer: Any, norm: Any) -> None:
    import torch
    from torch import nn

    with torch.no_grad():
        factor = torch.rsqrt(norm.running_var + norm.eps)
        if norm.weight is not None:
            factor = factor * norm.weight
        bias = torch.zeros_like(norm.running_mean) if layer.bias is None else layer.bias
        shift = (bias - norm.running_mean) * factor
        if norm.bias is not None:
            shift = shift + norm.bias
        layer.weight.mul_(factor.reshape(-1, *(1,) * (layer.weight.dim() - 1)))
        if layer.bias is None:
            layer.bias = nn.Parameter(shift)
        else:
            layer.bias.copy_(shift)


def _pairs(root: Any) -> Iterator[tuple[str, str]]:
    """Paths of norms, each with the layer whose output it alone takes."""
    graph = _graph(root)
    if graph is None:
        yield from _neighbours(root)
        return
    calls: dict[str, int] = {}
    for node in graph.nodes:
        if node.op == "call_module":
            calls[node.target] = calls.get(node.target, 0) + 1
    for node in graph.nodes:
        if node.op != "call_module" or calls[node.target] != 1:
            continue
        if type(root.get_submodule(node.target)).__name__ not in _NORMS:
            continue
        before: Any = node.args[0] if node.args else None
        if getattr(before, "op", "") != "call_module" or len(before.users) != 1:
            continue
        if calls[before.target] == 1 and _can_absorb(root, before.target):
            yield node.target, before.target


def _neighbours(root: Any) -> Iterator[tuple[str, str]]:
    """Neighbours in a `nn.Sequential`, for models that cannot be traced."""
    from torch import nn

    for path, module in root.named_modules():
        if type(module) is not nn.Sequential:
            continue
        names = [f"{path}.{name}".lstrip(".") for name, _ in module.named_children()]
        for before, after in pairwise(names):
            if type(root.get_submodule(after)).__name__ in _NORMS and _can_absorb(root, before):
                yield after, before


def _can_absorb(root: Any, path: str) -> bool:
    """A plain layer whose parameters nobody else has."""
    layer = root.get_submodule(path)
    if type(layer).__name__ not in _BEFORE:
        return False
    own = {id(p) for p in layer.parameters()}
    names = [n for n, p in root.named_parameters(remove_duplicate=False) if id(p) in own]
    return len(names) == len(own)


def _graph(root: Any) -> Any:
    """The graph of module calls, None for a model that cannot be traced symbolically."""
    from torch import fx

    class Leaves(fx.Tracer):  # type: ignore[misc]
        def is_leaf_module(self, module: Any, path: str) -> bool:
            return type(module).__module__.startswith("torch.nn.") and not list(module.children())

    try:
        return Leaves().trace(root)
    except Exception:  # any control flow of the user's model can end here
        return None


SWAP = Swap(name="fold-batch-norm", whole=_fold)
