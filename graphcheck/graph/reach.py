"""Which gradients, buffers and losses depend on a node: one backward sweep over the joint graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["SHAPE_ONLY", "Reach", "reach_of_nodes"]


SHAPE_ONLY: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(
        (
            "empty_like",
            "full_like",
            "new_empty",
            "new_empty_strided",
            "new_full",
            "new_ones",
            "new_zeros",
            "ones_like",
            "rand_like",
            "randint_like",
            "randn_like",
            "sym_size",
            "zeros_like",
        )
    ),
    "_adaptive_avg_pool2d_backward": (1,),
    "_adaptive_avg_pool3d_backward": (1,),
    "avg_pool2d_backward": (1,),
    "avg_pool3d_backward": (1,),
    "max_pool2d_with_indices_backward": (1,),
    "max_pool3d_with_indices_backward": (1,),
}
"""Arguments of which only the shape counts, by op; None stands for every argument."""


@dataclass(frozen=True)
class Reach:
    """Names of parameters whose gradient, and of mutated buffers that, depend on a node."""

    gradients: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    loss: bool = False


def reach_of_nodes(joint: Any, skip: frozenset[str]) -> dict[str, Reach]:
    """Reach by node name; gradients of the parameters in `skip` do not count."""
    from torch.export.graph_signature import OutputKind

    roles: dict[str, int] = {}
    gradients: list[tuple[int, str]] = []
    buffers: list[tuple[int, str]] = []
    loss_bit = 1
    bit = 2
    for spec in joint.graph_signature.output_specs:
        name = getattr(spec.arg, "name", None)
        if name is None:
            continue
        if spec.kind == OutputKind.LOSS_OUTPUT:
            roles[name] = roles.get(name, 0) | loss_bit
        elif spec.kind == OutputKind.GRADIENT_TO_PARAMETER and spec.target not in skip:
            gradients.append((bit, spec.target))
            roles[name] = roles.get(name, 0) | bit
            bit <<= 1
        elif spec.kind == OutputKind.BUFFER_MUTATION:
            buffers.append((bit, spec.target))
            roles[name] = roles.get(name, 0) | bit
            bit <<= 1

    masks: dict[Any, int] = {}
    for node in reversed(joint.graph.nodes):
        if node.op == "output":
            continue
        mask = roles.get(node.name, 0)
        for user in node.users:
            if not _only_shape(node, user):
                mask |= masks.get(user, 0)
        masks[node] = mask

    decoded: dict[int, Reach] = {}
    for mask in set(masks.values()):
        decoded[mask] = Reach(
            tuple(name for flag, name in gradients if mask & flag),
            tuple(name for flag, name in buffers if mask & flag),
            bool(mask & loss_bit),
        )
    return {node.name: decoded[mask] for node, mask in masks.items()}


def _only_shape(node: Any, user: Any) -> bool:
    """Whether `user` takes no more than the shape of `node`."""
    name = getattr(getattr(user.target, "overloadpacket", None), "__name__", "")
    if name not in SHAPE_ONLY:
        return False
    positions = SHAPE_ONLY[name]
    if positions is None:
        return True
    return not any(
        node is argument for position, argument in enumerate(user.args) if position not in positions
    )
