"""BatchNorm with fixed statistics."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["FrozenBatchNorm1d", "FrozenBatchNorm2d", "FrozenBatchNorm3d"]


class _FrozenBatchNorm:
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)  # type: ignore[attr-defined]
        return F.batch_norm(
            input,
            self.running_mean,  # type: ignore[attr-defined]
            self.running_var,  # type: ignore[attr-defined]
            self.weight,  # type: ignore[attr-defined]
            self.bias,  # type: ignore[attr-defined]
            False,
            0.0,
            self.eps,  # type: ignore[attr-defined]
        )


class FrozenBatchNorm1d(_FrozenBatchNorm, nn.BatchNorm1d):  # type: ignore[misc]
    """`nn.BatchNorm1d` that uses its running statistics in training, too, and keeps them."""


class FrozenBatchNorm2d(_FrozenBatchNorm, nn.BatchNorm2d):  # type: ignore[misc]
    """`nn.BatchNorm2d` that uses its running statistics in training, too, and keeps them."""


class FrozenBatchNorm3d(_FrozenBatchNorm, nn.BatchNorm3d):  # type: ignore[misc]
    """`nn.BatchNorm3d` that uses its running statistics in training, too, and keeps them."""
