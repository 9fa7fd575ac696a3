"""Memory layouts as the lowered program will have them.

In the joint graph a `permute` is a view and what follows it inherits its strides. Lowering turns
every view into a copy with contiguous strides, so the layouts that kernels meet are other ones.
ExecuTorch derives a tensor's dim order from its strides (largest first, stable).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

__all__ = ["dim_order_of", "edge_strides", "laid_out_anew"]

_VIEWS = frozenset(
    [
        "alias",
        "as_strided",
        "detach",
        "diagonal",
        "expand",
        "permute",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unfold",
        "unsqueeze",
        "view",
        "_unsafe_view",
        "reshape",
        "unsafe_split",
        "unsafe_split_with_sizes",
        "lift_fresh_copy",
    ]
)

_COPIES = ("_to_copy", "clone")

# Lowering copies the input of these to the default layout first (LegalizePortableDimOrderPass).
_CONTIGUOUS_FIRST = frozenset(
    [
        "aten._adaptive_avg_pool2d.default",
        "aten.avg_pool2d.default",
        "aten.mean.dim",
        "aten.sum.dim_IntList",
    ]
)


# Stands for a size that the data make: the layout is that of a tensor that is not empty.
_MANY = 1 << 20


def dim_order_of(strides: Sequence[Any]) -> tuple[int, ...]:
    """Dims from outermost to innermost; () when a stride depends on a dynamic input size."""
    known = [_known(stride) for stride in strides]
    if None in known:
        return ()
    return tuple(sorted(range(len(known)), key=lambda dim: -known[dim]))  # type: ignore[operator]


def _known(stride: Any) -> int | None:
    """A number for a stride that is one, or that sizes from the data make."""
    if isinstance(stride, int):
        return stride
    from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols

    symbols = free_symbols(stride)
    if symbols != free_unbacked_symbols(stride):
        return None
    return int(stride.node.expr.subs(dict.fromkeys(symbols, _MANY)))


def _is_contiguous(value: Any) -> bool:
    return _is_default(tuple(value.stride()))


def _is_default(strides: Sequence[Any]) -> bool:
    return dim_order_of(strides) in ((), tuple(range(len(strides))))


def _makes_layout(node: Any) -> bool:
    """Whether the op itself chooses the layout of its result: these work on columns."""
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    return name.startswith(("linalg_", "_linalg_", "cholesky", "lu_unpack", "nonzero"))


def _needs_simulation(joint: Any) -> bool:
    """Whether any tensor of the lowered program can be other than row-major."""
    import torch

    for node in joint.graph.nodes:
        if node.op == "placeholder":
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and not _is_contiguous(value):
                return True
        elif node.op == "call_function":
            layout = node.kwargs.get("memory_format")
            if layout not in (None, torch.preserve_format, torch.contiguous_format):
                return True
            name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
            if name == "empty_permuted" and list(node.args[1]) != sorted(node.args[1]):
                return True
            if _makes_layout(node):
                return True
    return False


def laid_out_anew(joint: Any) -> frozenset[str]:
    """Nodes that are in another layout than the default whatever model, inputs and forward ask for.

    Those that ops of linear algebra and nonzero make, and what inherits it.
    """
    if not any(_makes_layout(node) for node in joint.graph.nodes):
        return frozenset()
    found = edge_strides(joint, as_default=True)
    return frozenset(
        name
        for name, known in found.items()
        for strides in (known if isinstance(known, list) else [known])
        if strides is not None and not _is_default(strides)
    )


def edge_strides(joint: Any, *, as_default: bool = False) -> Mapping[str, Any]:
    """Strides by node name as in the edge program; empty when every tensor is row-major.

    A value is a tuple of strides, or a list of them for a node with several outputs. `as_default`
    is the program whose inputs and requests are all of the default layout.
    """
    import torch
    from torch._guards import detect_fake_mode
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    if not _needs_simulation(joint):
        return {}
    placeholders = [node for node in joint.graph.nodes if node.op == "placeholder"]
    values = [node.meta.get("val") for node in placeholders]
    mode = detect_fake_mode([v for v in values if isinstance(v, torch.Tensor)])
    if mode is None:
        return {}
    strides: dict[str, Any] = {}

    class Simulation(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, node: torch.fx.Node) -> Any:
            result = super().run_node(node)
            name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
            made_anew = name in _VIEWS or str(node.target) in _CONTIGUOUS_FIRST
            # Nor has a copy of a single column any other order.
            made_anew |= name in _COPIES and tuple(result.shape[1:]) == (1,)
            asked = name == "empty_permuted" or "memory_format" in node.kwargs
            if node.op == "call_function" and (made_anew or (as_default and asked)):
                result = torch.utils._pytree.tree_map_only(
                    torch.Tensor,
                    lambda t: t.clone(memory_format=torch.contiguous_format),
                    result,
                )
            if isinstance(result, torch.Tensor):
                strides[node.name] = tuple(result.stride())
            elif isinstance(result, (tuple, list)):
                strides[node.name] = [
                    tuple(item.stride()) if isinstance(item, torch.Tensor) else None
                    for item in result
                ]
            return result

    if as_default:
        with mode:
            default = torch.contiguous_format
            values = [
                v.clone(memory_format=default)
                if isinstance(v, torch.Tensor) and not _is_contiguous(v)
                else v
                for v in values
            ]
    fresh = mode.shape_env.ignore_fresh_unbacked_symbols if mode.shape_env else nullcontext
    # Where it stops, lowering stops as well, and says so.
    with mode, fresh(), suppress(GuardOnDataDependentSymNode):
        Simulation(joint.graph_module, garbage_collect_values=False).run(*values)
    return strides
