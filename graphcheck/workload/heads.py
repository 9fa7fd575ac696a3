"""Which part of a model's output is the prediction, and what auxiliary outputs weigh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["describe_heads", "heads", "shown_output", "tensors_of"]

_SEQUENCE_DECAY = 0.8
"""RAFT's weight of a flow estimate per refinement that follows it (Teed and Deng, 2020)."""
_AUXILIARY = {"aux_logits1": 0.3, "aux_logits2": 0.3, "aux_logits": 0.4, "aux": 0.5}
"""Weights of auxiliary heads: GoogLeNet 0.3 (Szegedy et al., 2014), Inception v3 0.4 and
segmentation 0.5 (both as in torchvision's training references)."""
_MAIN = ("logits", "out", "prediction", "pred", "output", "flow")


def tensors_of(output: Any) -> list[Any]:
    """All tensors of an output, in the order in which export flattens them."""
    import torch
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def _fields(output: Any) -> dict[str, Any]:
    if isinstance(output, Mapping):
        return {str(name): value for name, value in output.items()}
    if isinstance(output, tuple) and hasattr(output, "_fields"):
        return dict(zip(output._fields, output, strict=True))
    return {}


def heads(output: Any, *, sequence: bool = False) -> list[tuple[str, float, Any]]:
    """The parts of an output that the loss is taken of: (name, weight, tensor).

    `sequence` is whether a list is a series of ever better estimates of the same thing.
    Everything not listed is ignored. Empty when there is no tensor at all.
    """
    import torch

    if isinstance(output, torch.Tensor):
        return [("", 1.0, output)]
    fields = {
        name: value for name, value in _fields(output).items() if isinstance(value, torch.Tensor)
    }
    if fields:
        # A number beside predictions is a statistic, no prediction.
        shaped = [name for name, value in fields.items() if value.dim()] or list(fields)
        main = next((name for name in _MAIN if name in shaped), shaped[0])
        rest = [
            (name, _AUXILIARY[name], value)
            for name, value in fields.items()
            if name in _AUXILIARY and name != main and value.dim() == fields[main].dim()
        ]
        return [(main, 1.0, fields[main]), *rest]
    tensors = tensors_of(output)
    if sequence:
        last = len(tensors) - 1
        return [(str(i), _SEQUENCE_DECAY ** (last - i), t) for i, t in enumerate(tensors)]
    return [("0", 1.0, tensors[0])] if tensors else []


def shown_output(output: Any) -> str:
    """What forward returns, as an object of a sentence: `a dict with the keys logits, aux`."""
    fields = _fields(output)
    if fields:
        many = "s" if len(fields) > 1 else ""
        if isinstance(output, Mapping):
            return f"a dict with the key{many} {', '.join(fields)}"
        return f"a {type(output).__name__} with the field{many} {', '.join(fields)}"
    return f"a {type(output).__name__}"


def describe_heads(output: Any, *, sequence: bool = False) -> str:
    """A sentence on what was taken as the prediction; "" when the output is one tensor."""
    import torch

    if isinstance(output, torch.Tensor):
        return ""
    used = heads(output, sequence=sequence)
    if not used:
        return ""
    if sequence:
        return (
            f"The {len(used)} estimates that forward returns share the loss, each weighing "
            f"{_SEQUENCE_DECAY} of the next."
        )
    count = len(tensors_of(output))
    (name, _, _), *auxiliary = used
    named = f"{name!r}" if _fields(output) else f"number {name}"
    sentence = f"Output {named} is taken as the prediction"
    if auxiliary:
        parts = " and ".join(f"{weight:g} times {name!r}" for name, weight, _ in auxiliary)
        sentence += f", with {parts} added to the loss"
    ignored = count - len(used)
    if ignored:
        sentence += f"; {ignored} more {'output is' if ignored == 1 else 'outputs are'} ignored"
    return sentence + "."
