"""One-dimensional convolution as a two-dimensional one."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from graphcheck.layers.padding import pad_by_cat
from graphcheck.layers.parts import sizes

__all__ = ["Conv1dAsConv2d", "conv1d_as_conv2d"]


def conv1d_as_conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """`F.conv1d` as a convolution of height 1: the runtime differentiates only 2-d ones."""
    (step,), (spread,) = sizes(stride, 1), sizes(dilation, 1)
    if padding == "valid":
        padding = 0
    elif padding == "same":
        total = spread * (weight.shape[-1] - 1)
        # Unequal pads go before: a convolution pads both ends alike.
        if total % 2:
            input = pad_by_cat(input, (0, 1))
        padding = total // 2
    (pad,) = sizes(padding, 1)
    output = F.conv2d(
        input.unsqueeze(-2),
        weight.unsqueeze(-2),
        bias,
        stride=(1, step),
        padding=(0, pad),
        dilation=(1, spread),
        groups=groups,
    )
    return output.squeeze(-2)


class Conv1dAsConv2d(nn.Conv1d):  # type: ignore[misc]
    """`nn.Conv1d`, computed by `F.conv2d`."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return conv1d_as_conv2d(
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )
