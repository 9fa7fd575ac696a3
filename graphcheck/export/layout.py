"""A model in another memory layout than the default, made row-major before the export."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from graphcheck.graph.provenance import clean_module_path
from graphcheck.rewrite.layout import contiguous_graph_, is_row_major
from graphcheck.rules.types import Finding
from graphcheck.workload.types import Workload

__all__ = ["contiguous_", "contiguous_requests_", "wants_default_layout"]

_LAYOUT = ("GC205", "GC206")


def wants_default_layout(findings: Iterable[Finding]) -> bool:
    """Whether a kernel refuses or ignores the layout of a tensor of this graph."""
    return any(finding.code in _LAYOUT for finding in findings)


def contiguous_(workload: Workload) -> tuple[Workload, tuple[str, ...]]:
    """Row-major parameters, buffers (in place) and inputs; a sentence for each kind changed."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map_only

    told = []
    tensors = [*workload.module.named_parameters(), *workload.module.named_buffers()]
    other = [(name, tensor) for name, tensor in tensors if not _is_plain(tensor)]
    for _, tensor in other:
        tensor.data = _plain(tensor)
    if other:
        names = [clean_module_path(name, workload.prefix) for name, _ in other]
        told.append(f"made row-major: {_listed(names)}")

    def row_major(tensor: Any) -> Any:
        return tensor if _is_plain(tensor) else _plain(tensor).requires_grad_(tensor.requires_grad)

    given = (workload.inputs, workload.kwargs)
    inputs, kwargs = tree_map_only(torch.Tensor, row_major, given)
    batches = tree_map_only(torch.Tensor, row_major, workload.batches)
    count = sum(
        isinstance(leaf, torch.Tensor) and not _is_plain(leaf) for leaf in tree_leaves(given)
    )
    if count:
        told.append(
            f"{_times(count, 'input')} made row-major: feed the program row-major tensors of the "
            "same shape"
        )
    return replace(workload, inputs=inputs, kwargs=kwargs, batches=batches), tuple(told)


def contiguous_requests_(exported: Any) -> tuple[str, ...]:
    """Drop what forward asks for in other layouts, in place; a sentence on it, if there was any."""
    changed = contiguous_graph_(exported)
    if not changed:
        return ()
    return (f"{_times(len(changed), 'request')} of forward for another memory layout dropped",)


def _is_plain(tensor: Any) -> bool:
    """Whether it is row-major, and its strides say so.

    Those of dims of size 1 reach no memory, but a convolution with a 1x1 kernel whose strides are
    of channels_last has its result in that layout.
    """
    if not is_row_major(tensor):
        return False
    return not tensor.is_contiguous() or tensor.stride() == _strides(tensor)


def _plain(tensor: Any) -> Any:
    made = tensor.detach().contiguous()
    return made.as_strided(made.shape, _strides(made))


def _strides(tensor: Any) -> tuple[int, ...]:
    import torch

    return tuple(torch.empty(tensor.shape, device="meta").stride())


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _times(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
