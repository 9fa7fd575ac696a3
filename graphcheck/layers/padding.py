"""Padding by concatenation: the backward of `F.pad` is a pad with negative lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = [
    "CatConstantPad1d",
    "CatConstantPad2d",
    "CatConstantPad3d",
    "CatZeroPad1d",
    "CatZeroPad2d",
    "CatZeroPad3d",
    "pad_by_cat",
]


def pad_by_cat(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """`F.pad`, constant pads by `torch.cat`; other modes go to `F.pad`."""
    if mode != "constant":
        return F.pad(input, pad, mode, value)
    for index in range(len(pad) // 2):
        dim = input.dim() - 1 - index
        before, after = pad[2 * index], pad[2 * index + 1]
        if before < 0 or after < 0:
            start = max(-before, 0)
            input = input.narrow(dim, start, input.shape[dim] - start - max(-after, 0))
        ends = [_filled(input, dim, length, value) for length in (before, after)]
        parts = [part for part in (ends[0], input, ends[1]) if part is not None]
        if len(parts) > 1:
            input = torch.cat(parts, dim)
    return input


def _filled(input: Tensor, dim: int, length: int, value: float | None) -> Tensor | None:
    if length <= 0:
        return None
    shape = [length if index == dim else size for index, size in enumerate(input.shape)]
    return input.new_full(shape, value or 0.0)


class _CatPad:
    padding: Any
    value: float

    def forward(self, input: Tensor) -> Tensor:
        return pad_by_cat(input, self.padding, "constant", self.value)


class CatZeroPad1d(_CatPad, nn.ZeroPad1d):  # type: ignore[misc]
    """`nn.ZeroPad1d` by concatenation."""


class CatZeroPad2d(_CatPad, nn.ZeroPad2d):  # type: ignore[misc]
    """`nn.ZeroPad2d` by concatenation."""


class CatZeroPad3d(_CatPad, nn.ZeroPad3d):  # type: ignore[misc]
    """`nn.ZeroPad3d` by concatenation."""


class CatConstantPad1d(_CatPad, nn.ConstantPad1d):  # type: ignore[misc]
    """`nn.ConstantPad1d` by concatenation."""


class CatConstantPad2d(_CatPad, nn.ConstantPad2d):  # type: ignore[misc]
    """`nn.ConstantPad2d` by concatenation."""


class CatConstantPad3d(_CatPad, nn.ConstantPad3d):  # type: ignore[misc]
    """`nn.ConstantPad3d` by concatenation."""
