"""Indices of picked values: any index is admissible that points at the value that was picked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["is_pick", "pool_window", "wrong_picks"]

_POOLS = ("max_pool2d_with_indices",)
_ALONG = ("topk", "sort", "max", "min", "kthvalue", "median", "nanmedian", "mode", "cummax")
_ARGS = {"argmax": "amax", "argmin": "amin"}


def is_pick(name: str) -> bool:
    """Whether the integers that this op gives (`max_pool2d_with_indices`, `topk`) are picks."""
    return name in _POOLS or name in _ALONG or name in _ARGS


def wrong_picks(bounds: Any, made: Any, outputs: Sequence[Any]) -> Any:
    """Which of the indices `made` point at another value than was picked; None if none do.

    `bounds` are those of the instruction, `outputs` all it gave.
    """
    import torch

    given = bounds.replay.given
    source = given.get("self", given.get("input"))
    if bounds.name in _POOLS:
        bad = _outside(given, source, made) | _differs(source.flatten(-2), made, outputs[0])
    else:
        dim = given.get("dim")
        if dim is None:
            source, dim = source.flatten(), 0
        index = made if made.dim() == source.dim() else made.unsqueeze(dim)
        inside = (index >= 0) & (index < source.shape[dim])
        picked = torch.gather(source, dim, torch.where(inside, index, 0)).reshape(made.shape)
        values = (
            getattr(torch, _ARGS[bounds.name])(source, dim).reshape(made.shape)
            if bounds.name in _ARGS
            else outputs[0]
        )
        bad = ~inside.reshape(made.shape) | ~_equal(picked, values)
        if bounds.name in ("topk", "sort"):
            bad = bad | _repeated(index, dim).reshape(made.shape)
    return bad if bool(bad.any()) else None


def _equal(first: Any, second: Any) -> Any:
    return (first == second) | ((first != first) & (second != second))


def _differs(planes: Any, index: Any, values: Any) -> Any:
    import torch

    flat = index.flatten(-2)
    inside = (flat >= 0) & (flat < planes.shape[-1])
    picked = torch.gather(planes, -1, torch.where(inside, flat, 0)).reshape(index.shape)
    return ~inside.reshape(index.shape) | ~_equal(picked, values)


def _repeated(index: Any, dim: int) -> Any:
    """Entries that repeat one before them along `dim`."""
    import torch

    order = torch.argsort(index, dim=dim, stable=True)
    ranked = torch.gather(index, dim, order)
    again = torch.zeros_like(index, dtype=torch.bool)
    length = index.shape[dim]
    if length > 1:
        later = ranked.narrow(dim, 1, length - 1) == ranked.narrow(dim, 0, length - 1)
        again.narrow(dim, 1, length - 1).copy_(later)
    return torch.zeros_like(again).scatter(dim, order, again)


def _outside(given: dict[str, Any], source: Any, index: Any) -> Any:
    """Indices of a pool that are not in their window."""
    import torch

    height, width = source.shape[-2:]
    row, column = index // width, index % width
    bad = (index < 0) | (index >= height * width)
    for place, axis in ((row, -2), (column, -1)):
        kernel, stride, padding, dilation = pool_window(given, axis)
        shape = [1] * index.dim()
        shape[axis] = index.shape[axis]
        start = (torch.arange(index.shape[axis]) * stride - padding).reshape(shape)
        offset = place - start
        bad = bad | (offset < 0) | (offset > dilation * (kernel - 1)) | (offset % dilation != 0)
    return bad


def pool_window(given: dict[str, Any], axis: int) -> tuple[int, int, int, int]:
    """Kernel, stride, padding and dilation of a pool's arguments along an axis (-2 or -1)."""

    def of(name: str, default: Any) -> int:
        value = given.get(name) or default
        value = [value] if isinstance(value, int) else list(value)
        return int(value[axis] if len(value) > 1 else value[0])

    kernel = of("kernel_size", 1)
    return kernel, of("stride", kernel), of("padding", 0), of("dilation", 1)
