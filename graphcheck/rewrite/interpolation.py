"""Interpolation matrices [inputs, outputs] of the resizing modes, one dim each.

Each takes sizes, align_corners, the scale the user gave (None if he gave a size) and a dtype.
Weights are computed in float64; the runtime makes the matrices anew in every run, they are small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphcheck.rewrite.parts import positions, scaled

__all__ = ["antialiased", "cubic", "linear", "nearest"]


def _step(inputs: Any, outputs: Any, align: bool, scale: Any) -> float:
    """Distance of two outputs, in inputs."""
    if align:
        return float((inputs - 1) / (outputs - 1)) if outputs > 1 else 0.0
    return 1.0 / scale if scale else float(inputs / outputs)


def nearest(shift: float) -> Callable[[Any, Any, bool, Any, Any], Any]:
    """1 at floor((o + shift) step); `shift` is 0.5 for nearest-exact."""

    def matrix(inputs: Any, outputs: Any, align: bool, scale: Any, dtype: Any) -> Any:
        import torch

        # Eager computes the place in float32, whatever the dtype; so it is done here.
        step = torch.full([1], _step(inputs, outputs, False, scale), dtype=torch.float32)
        place = torch.floor((positions(outputs, torch.float32) + shift) * step)
        place = torch.clamp(place, max=inputs - 1)
        return (positions(inputs, torch.float32, [inputs, 1]) == place).to(dtype)

    return matrix


def linear(inputs: Any, outputs: Any, align: bool, scale: Any, dtype: Any) -> Any:
    """max(0, 1 - distance to the source point), which is cut at the borders."""
    import torch

    source = _source(inputs, outputs, align, scale)
    source = torch.clamp(source, min=0, max=inputs - 1)
    place = positions(inputs, torch.float64, [inputs, 1])
    return torch.clamp(1 - torch.abs(place - source), min=0).to(dtype)


def cubic(inputs: Any, outputs: Any, align: bool, scale: Any, dtype: Any) -> Any:
    """Keys' cubic with a = -0.75 over four inputs; those beyond the border are the border."""
    import torch

    source = _source(inputs, outputs, align, scale)
    base = torch.floor(source)
    place = positions(inputs, torch.float64, [inputs, 1])
    total = None
    for tap in (-1, 0, 1, 2):
        at = base + tap
        weight = _keys(torch.abs(source - at), -0.75)
        part = (torch.clamp(at, min=0, max=inputs - 1) == place).to(torch.float64) * weight
        total = part if total is None else total + part
    assert total is not None
    return total.to(dtype)


def antialiased(radius: int) -> Callable[[Any, Any, bool, Any, Any], Any]:
    """The kernel (1: linear, 2: cubic with a = -0.5) as wide as the reduction, weights summing
    to one."""

    def matrix(inputs: Any, outputs: Any, align: bool, scale: Any, dtype: Any) -> Any:
        import torch

        step = _step(inputs, outputs, align, scale)
        center = scaled(positions(outputs, torch.float64) + 0.5, step)
        place = positions(inputs, torch.float64, [inputs, 1])
        distance = torch.abs(scaled(place - center + 0.5, 1.0 / max(step, 1.0)))
        weight = torch.clamp(1 - distance, min=0) if radius == 1 else _keys(distance, -0.5)
        # By a product: the runtime takes a sum over one dim in float32.
        ones = torch.full([1, inputs], 1.0, dtype=torch.float64)
        return (weight / torch.ops.aten.mm.default(ones, weight)).to(dtype)

    return matrix


def _source(inputs: Any, outputs: Any, align: bool, scale: Any) -> Any:
    """The point each output shows, in inputs."""
    import torch

    step = _step(inputs, outputs, align, scale)
    index = positions(outputs, torch.float64)
    return scaled(index, step) if align else scaled(index + 0.5, step) - 0.5


def _keys(distance: Any, a: float) -> Any:
    """Keys' cubic convolution kernel, zero from 2 on."""
    import torch

    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    zero = torch.zeros_like(distance)
    return torch.where(distance <= 1, near, torch.where(distance < 2, far, zero))
