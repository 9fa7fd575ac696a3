"""Indices of picked values: any index is admissible that points at the value that was picked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["POOLS", "is_pick", "pool_places", "wrong_picks"]

POOLS = ("max_pool2d_with_indices", "adaptive_max_pool2d")
_ALONG = (
    *("topk", "sort", "max", "min", "kthvalue", "median", "nanmedian", "mode"),
    *("cummax", "cummin"),
)
_ARGS = {"argmax": "amax", "argmin": "amin"}


def is_pick(name: str, output: int) -> bool:
    """Whether that output of the op (`max_pool2d_with_indices`, `topk`) holds indices of picks."""
    if name in _ARGS:
        return output == 0
    return output == 1 and (name in POOLS or name in _ALONG)


def wrong_picks(bounds: Any, made: Any, outputs: Sequence[Any]) -> Any:
    """Which of the indices `made` point at another value than was picked; None if none do.

    `bounds` are those of the instruction, `outputs` all it gave.
    """
    import torch

    given = bounds.replay.given
    source = given.get("self", given.get("input"))
    if bounds.name in POOLS:
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
        if bounds.name in ("cummax", "cummin"):
            bad = bad | _later(made, given.get("dim"))
        if bounds.name == "sort" and given.get("stable"):
            # A stable sort leaves no choice among equal values.
            bad = bad | (made != bounds.native[1])
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


def _later(index: Any, dim: int) -> Any:
    """Entries of a scan that point behind themselves."""
    import torch

    shape = [1] * index.dim()
    if index.dim():
        shape[dim] = index.shape[dim]
    return index > torch.arange(index.shape[dim] if index.dim() else 1).reshape(shape)


def _outside(given: dict[str, Any], source: Any, index: Any) -> Any:
    """Indices of a pool that are not in their window."""
    import torch

    height, width = source.shape[-2:]
    row, column = index // width, index % width
    bad = (index < 0) | (index >= height * width)
    for place, axis in ((row, -2), (column, -1)):
        cells, inside = pool_places(given, axis, source.shape[axis], index.shape[axis])
        shape = [1] * index.dim()
        shape[axis] = index.shape[axis]
        hit = torch.zeros_like(bad)
        for cell, there in zip(cells, inside, strict=True):
            hit |= (place == cell.reshape(shape)) & there.reshape(shape)
        bad = bad | ~hit
    return bad


def pool_places(given: dict[str, Any], axis: int, size: int, count: int) -> tuple[Any, Any]:
    """The places of `size` along an axis (-2 or -1) that each of `count` windows looks at, [K, L],
    and [K, L] whether they are in the window and in the plane.

    `given` are the arguments of the pool; the windows of an adaptive one differ in their length.
    """
    import torch

    windows = torch.arange(count)
    if "kernel_size" not in given:
        start = windows * size // count
        end = -((windows + 1) * size // -count)
        place = torch.arange(int((end - start).max())).unsqueeze(1) + start
        return place, place < end
    kernel, stride, padding, dilation = _pool_window(given, axis)
    start = windows * stride - padding
    place = torch.arange(kernel).unsqueeze(1) * dilation + start
    return place, (place >= 0) & (place < size)


def _pool_window(given: dict[str, Any], axis: int) -> tuple[int, int, int, int]:
    """Kernel, stride, padding and dilation of a pool's arguments along an axis (-2 or -1)."""

    def of(name: str, default: Any) -> int:
        value = given.get(name) or default
        value = [value] if isinstance(value, int) else list(value)
        return int(value[axis] if len(value) > 1 else value[0])

    kernel = of("kernel_size", 1)
    return kernel, of("stride", kernel), of("padding", 0), of("dilation", 1)
