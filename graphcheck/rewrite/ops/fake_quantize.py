"""Fake quantisation with given scale and zero point, as quantisation-aware training has it."""

from __future__ import annotations

import struct
from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def per_tensor(
    x: Any, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Any, Any]:
    """The rounded tensor like x, and the mask of entries that were in range."""
    single = _float32(scale)
    return _quantized(x, _float32(1.0 / single), single, zero_point, quant_min, quant_max)


def per_tensor_of_tensors(
    x: Any, scale: Any, zero_point: Any, enabled: Any, quant_min: int, quant_max: int
) -> tuple[Any, Any]:
    """The same with scale, zero point and a switch in tensors of one element."""
    import torch

    rounded, mask = _quantized(x, 1.0 / scale, scale, zero_point.to(x.dtype), quant_min, quant_max)
    on = enabled != 0
    return torch.where(on, rounded, x), torch.logical_or(mask, torch.logical_not(on))


def per_channel(
    x: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int
) -> tuple[Any, Any]:
    """The same with `scale` and `zero_point` [size of dim `axis`]."""
    along = [1] * x.dim()
    along[axis] = x.shape[axis]
    scale = scale.view(along)
    zero = zero_point.view(along).to(x.dtype)
    return _quantized(x, 1.0 / scale, scale, zero, quant_min, quant_max)


def _quantized(
    x: Any, inverse: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> tuple[Any, Any]:
    import torch

    steps = torch.round(x * inverse) + zero_point
    mask = torch.logical_and(steps >= quant_min, steps <= quant_max)
    rounded = (torch.clamp(steps, quant_min, quant_max) - zero_point) * scale
    return rounded.to(x.dtype), mask


def _float32(value: float) -> float:
    """The kernel computes with float32 numbers."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


REWRITES = tuple(
    Rewrite(
        name=name,
        op=op,
        formula="q = round(x / scale) + zero; y = (clamp(q, min, max) - zero) * scale; mask = "
        "min <= q <= max",
        source="definition of fake quantisation, halves rounded to even",
        decompose=decompose,
        memory="one tensor of the size of the input",
    )
    for name, op, decompose in (
        (
            "fake_quantize_per_tensor",
            "aten.fake_quantize_per_tensor_affine_cachemask.default",
            per_tensor,
        ),
        (
            "fake_quantize_per_tensor_of_tensors",
            "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
            per_tensor_of_tensors,
        ),
        (
            "fake_quantize_per_channel",
            "aten.fake_quantize_per_channel_affine_cachemask.default",
            per_channel,
        ),
    )
)
