"""Activations by ops that the runtime has."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["SigmoidSiLU", "sigmoid_silu"]


def sigmoid_silu(input: Tensor, inplace: bool = False) -> Tensor:
    """`F.silu` as x * sigmoid(x), never in place."""
    return input * torch.sigmoid(input)


class SigmoidSiLU(nn.SiLU):  # type: ignore[misc]
    """`nn.SiLU` as x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return sigmoid_silu(input)
