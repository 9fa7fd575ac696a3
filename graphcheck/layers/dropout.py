"""Dropout with a mask of its own: the runtime's kernel does not scale the survivors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = [
    "MaskDropout",
    "MaskDropout1d",
    "MaskDropout2d",
    "MaskDropout3d",
    "mask_dropout",
    "mask_dropout1d",
    "mask_dropout2d",
    "mask_dropout3d",
]


def _dropout(input: Tensor, p: float, training: bool, shape: tuple[int, ...]) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input * 0.0
    keep = torch.rand(shape, dtype=input.dtype, device=input.device) >= p
    return input * (keep.to(input.dtype) * (1.0 / (1.0 - p)))


def mask_dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """`F.dropout` of the same distribution, never in place."""
    return _dropout(input, p, training, tuple(input.shape))


def mask_dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """`F.dropout1d` of the same distribution: [N, C, L] or [C, L] loses whole channels."""
    kept = input.dim() - 1
    return _dropout(input, p, training, (*input.shape[:kept], 1))


def mask_dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """`F.dropout2d` of the same distribution: one draw for each pair of the first two dims."""
    return _dropout(input, p, training, (*input.shape[:2], *(1,) * (input.dim() - 2)))


def mask_dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """`F.dropout3d` of the same distribution: [N, C, D, H, W] or [C, D, H, W]."""
    kept = input.dim() - 3
    return _dropout(input, p, training, (*input.shape[:kept], 1, 1, 1))


class MaskDropout(nn.Dropout):  # type: ignore[misc]
    """`nn.Dropout` with a mask of its own."""

    def forward(self, input: Tensor) -> Tensor:
        return mask_dropout(input, self.p, self.training)


class MaskDropout1d(nn.Dropout1d):  # type: ignore[misc]
    """`nn.Dropout1d` with a mask of its own."""

    def forward(self, input: Tensor) -> Tensor:
        return mask_dropout1d(input, self.p, self.training)


class MaskDropout2d(nn.Dropout2d):  # type: ignore[misc]
    """`nn.Dropout2d` with a mask of its own."""

    def forward(self, input: Tensor) -> Tensor:
        return mask_dropout2d(input, self.p, self.training)


class MaskDropout3d(nn.Dropout3d):  # type: ignore[misc]
    """`nn.Dropout3d` with a mask of its own."""

    def forward(self, input: Tensor) -> Tensor:
        return mask_dropout3d(input, self.p, self.training)
