"""Sampling at points of a grid, in 2 and 3 dimensions, forward and backward.

A sample is a sum over taps, products of the taps of each dimension: the nearest place, two
neighbours (linear) or four (cubic convolution). A tap is an index into the input, clamped, the
weight it has (0 outside for zero padding) and the weight's derivative by the grid coordinate.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import number, total, widened

__all__ = ["REWRITES", "backward", "forward"]

_LINEAR, _NEAREST, _CUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2
_A = -0.75
"""Parameter of the cubic kernel, as in torch."""


@dataclass
class _Tap:
    index: Any
    weight: Any
    slope: Any


def _unnormalized(x: Any, size: int, align_corners: bool) -> tuple[Any, float]:
    """From [-1, 1] to places of the input, and the factor of it."""
    if align_corners:
        factor = (size - 1) / 2
        return (x + 1) * factor, factor
    return ((x + 1) * size - 1) / 2, size / 2


def _clipped(x: Any, size: int) -> tuple[Any, Any]:
    """x kept inside, and its derivative: 0 outside and, as in torch, on the border itself."""
    import torch

    inside = torch.logical_and(x > 0, x < size - 1).to(x.dtype)
    return torch.ops.aten.clamp.default(x, 0, size - 1), inside


def _reflected(x: Any, size: int, align_corners: bool) -> tuple[Any, Any]:
    """x mirrored at the borders until it is inside, and the sign of the derivative."""
    import torch

    low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
    if span == 0:
        return x * 0, x * 0
    shifted = x - low
    sign = torch.where(shifted < 0, number(-1, x), number(1, x))
    distance = torch.abs(shifted)
    flips = torch.floor(distance / span)
    extra = distance - flips * span
    odd = flips - 2 * torch.floor(flips / 2)
    sign = sign * (1 - 2 * odd)
    inner = torch.where(odd > 0, span - extra, extra) + low
    return inner, sign


def _placed(x: Any, size: int, padding: int, align_corners: bool) -> tuple[Any, Any]:
    """The coordinate after padding and its derivative (None for 1)."""
    if padding == _BORDER:
        return _clipped(x, size)
    if padding == _REFLECTION:
        mirrored, sign = _reflected(x, size, align_corners)
        inner, inside = _clipped(mirrored, size)
        return inner, sign * inside
    return x, None


def _at(place: Any, size: int) -> tuple[Any, Any]:
    """A whole place as a clamped index, and 1 where it is inside, else 0."""
    import torch

    inside = torch.logical_and(place >= 0, place <= size - 1).to(place.dtype)
    return torch.ops.aten.clamp.default(place, 0, size - 1).to(torch.int64), inside


def _taps(x: Any, size: int, mode: int, padding: int, align_corners: bool) -> list[_Tap]:
    """The taps of one dimension for the grid coordinate x."""
    import torch

    x, factor = _unnormalized(x, size, align_corners)
    if mode == _CUBIC:
        return _cubic_taps(x, factor, size, padding, align_corners)
    x, derivative = _placed(x, size, padding, align_corners)
    if mode == _NEAREST:
        index, inside = _at(torch.round(x), size)
        return [_Tap(index, inside, None)]
    slope = number(factor, x) if derivative is None else derivative * factor
    before = torch.floor(x)
    taps = []
    for place, weight, sign in ((before, before + 1 - x, -1), (before + 1, x - before, 1)):
        index, inside = _at(place, size)
        taps.append(_Tap(index, weight * inside, slope * inside * sign))
    return taps


def _cubic_taps(x: Any, factor: float, size: int, padding: int, align_corners: bool) -> list[_Tap]:
    """Four taps of the cubic convolution kernel; the padding moves each tap, not the point."""
    import torch

    before = torch.floor(x)
    taps = []
    for step in (-1, 0, 1, 2):
        place = before + step
        distance = torch.abs(x - place)
        sign = 1 if step <= 0 else -1
        if step in (0, 1):
            weight = ((_A + 2) * distance - (_A + 3)) * distance * distance + 1
            slope = (3 * (_A + 2) * distance - 2 * (_A + 3)) * distance
        else:
            weight = ((_A * distance - 5 * _A) * distance + 8 * _A) * distance - 4 * _A
            slope = (3 * _A * distance - 10 * _A) * distance + 8 * _A
        moved = place
        if padding == _REFLECTION:
            moved, _ = _reflected(place, size, align_corners)
        if padding != _ZEROS:
            moved = torch.ops.aten.clamp.default(moved, 0, size - 1)
        index, inside = _at(moved, size)
        taps.append(_Tap(index, weight * inside, slope * inside * (sign * factor)))
    return taps


def _all_taps(x: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> list[list[_Tap]]:
    """Taps of each dimension, outermost first; tensors [N, points]. The grid counts inwards."""
    rank = x.dim() - 2
    points = grid.reshape(grid.shape[0], -1, rank)
    return [
        _taps(points[:, :, rank - 1 - dim], x.shape[2 + dim], mode, padding, align_corners)
        for dim in range(rank)
    ]


def _flat_index(taps: tuple[_Tap, ...], x: Any) -> Any:
    """Where a product of taps looks in the flattened input; [N, C, points]."""
    flat = taps[0].index
    for tap, size in zip(taps[1:], x.shape[3:], strict=True):
        flat = flat * size + tap.index
    return flat.unsqueeze(1).expand(x.shape[0], x.shape[1], flat.shape[1])


def _product(factors: list[Any]) -> Any:
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def forward(x: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> Any:
    """x [N, C, spatial], grid [N, points of the result, rank] -> [N, C, points of the result]."""
    import torch

    wide = widened(x).reshape(x.shape[0], x.shape[1], -1)
    result = None
    every = _all_taps(x, widened(grid), mode, padding, align_corners)
    for taps in itertools.product(*every):
        weight = _product([tap.weight for tap in taps]).unsqueeze(1)
        value = torch.ops.aten.gather.default(wide, 2, _flat_index(taps, x)) * weight
        result = value if result is None else result + value
    assert result is not None
    return result.reshape([*x.shape[:2], *grid.shape[1:-1]]).to(x.dtype)


def backward(
    grad: Any,
    x: Any,
    grid: Any,
    mode: int,
    padding: int,
    align_corners: bool,
    output_mask: list[bool],
) -> Any:
    """(gradient of x or None, gradient of the grid)."""
    import torch

    batch, channels = x.shape[:2]
    wide = widened(x).reshape(batch, channels, -1)
    g = widened(grad).reshape(batch, channels, -1)
    by_input = torch.full(wide.shape, 0, dtype=wide.dtype, device=x.device)
    slopes: list[Any] = [None] * (x.dim() - 2)
    every = _all_taps(x, widened(grid), mode, padding, align_corners)
    for taps in itertools.product(*every):
        place = _flat_index(taps, x)
        if output_mask[0]:
            weight = _product([tap.weight for tap in taps]).unsqueeze(1)
            by_input = torch.ops.aten.scatter_add.default(by_input, 2, place, g * weight)
        if output_mask[1] and mode != _NEAREST:
            value = torch.ops.aten.gather.default(wide, 2, place) * g
            value = total(value, [1])
            for dim, tap in enumerate(taps):
                others = [other.weight for other in taps if other is not tap]
                term = value * _product([tap.slope, *others])
                slopes[dim] = term if slopes[dim] is None else slopes[dim] + term
    if slopes[0] is None:
        by_grid = torch.zeros_like(grid)
    else:
        by_grid = torch.stack(slopes[::-1], -1).reshape(grid.shape).to(grid.dtype)
    return by_input.reshape(x.shape).to(x.dtype) if output_mask[0] else None, by_grid


_FORMULA = (
    "y[p] = sum over taps t of x[t] prod_d w_d(p, t); gx[t] += g[p] prod_d w_d; "
    "dgrid_d = sum_t g[p] x[t] w'_d prod of the other w"
)
_SOURCE = "torch.nn.functional.grid_sample; Jaderberg et al., 2015, equations 3 to 7; Keys, 1981"
_MEMORY = "per tap one gathered copy of the result's size (4 linear, 16 cubic, 8 in 3-d); they die"

REWRITES = tuple(
    Rewrite(
        name=f"grid_sampler_{rank}d{suffix}",
        op=f"aten.grid_sampler_{rank}d{suffix}.default",
        formula=_FORMULA,
        source=_SOURCE,
        decompose=decompose,
        memory=_MEMORY,
    )
    for rank in (2, 3)
    for suffix, decompose in (("", forward), ("_backward", backward))
)
