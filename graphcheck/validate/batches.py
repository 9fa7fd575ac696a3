"""The workload's example inputs as the arrays a device is fed with."""

from __future__ import annotations

from typing import Any

from graphcheck.errors import ModelError
from graphcheck.runtime.types import ArrayInput
from graphcheck.workload.types import Workload

__all__ = ["Batches", "array_input", "device_batches", "eager_batches"]

Batch = tuple[tuple[Any, ...], dict[str, Any]]
Batches = tuple[tuple[ArrayInput, ...], ...]


def eager_batches(workload: Workload) -> tuple[Batch, ...]:
    """The batches to train on in turn: the example inputs, or all sets the workload offers."""
    return workload.batches or ((workload.inputs, workload.kwargs),)


def device_batches(workload: Workload) -> tuple[tuple[ArrayInput, ...], ...]:
    """The same batches as raw arrays, in the order of the program's inputs.

    Raises ModelError for an input that is no tensor: the program has no place for it.
    """
    return tuple(_device_batch(batch) for batch in eager_batches(workload))


def _device_batch(batch: Batch) -> tuple[ArrayInput, ...]:
    import torch
    from torch.utils._pytree import tree_flatten

    leaves, _ = tree_flatten(batch)
    arrays = []
    for position, leaf in enumerate(leaves):
        if leaf is None or isinstance(leaf, (bool, int, float, str)):
            raise ModelError(
                f"input {position} is {leaf!r}, not a tensor: it is fixed in the program and "
                "cannot be fed to the runtime",
                "wrap the model in a module whose forward takes tensors only",
            )
        if not isinstance(leaf, torch.Tensor):
            raise ModelError(f"input {position} is a {type(leaf).__name__}, not a tensor")
        arrays.append(array_input(leaf))
    return tuple(arrays)


def array_input(tensor: Any) -> ArrayInput:
    """Raw bytes of a tensor, in the order of its dims in memory (channels-last stays so)."""
    import torch

    plain = tensor.detach().cpu()
    order = sorted(range(plain.dim()), key=lambda dim: -plain.stride(dim))
    # Broadcast or overlapping strides have no dim order; such a tensor is fed row-major.
    if not plain.permute(order).is_contiguous():
        order = list(range(plain.dim()))
    plain = plain.permute(order)
    data = plain.contiguous().reshape(-1).view(torch.uint8) if plain.numel() else plain
    return ArrayInput(
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(tensor.shape),
        data=data.numpy().tobytes() if plain.numel() else b"",
        dim_order=tuple(order),
    )
