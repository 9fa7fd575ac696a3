"""Pooling by means, maxima and convolutions."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphcheck.layers.parts import sizes

__all__ = [
    "AmaxPool1d",
    "AmaxPool2d",
    "AmaxPool3d",
    "ConvAvgPool1d",
    "ConvAvgPool2d",
    "GlobalMean1d",
    "GlobalMean2d",
    "GlobalMean3d",
    "MeanAvgPool1d",
    "MeanAvgPool2d",
    "MeanAvgPool3d",
    "WindowConv2d",
    "conv_avg_pool2d",
]


def _windows(input: Tensor, kernel: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
    """Input with every spatial dim split into windows and places in a window, and the latter."""
    rank = len(kernel)
    lead = input.dim() - rank
    shape: list[int] = []
    for index, size in enumerate(kernel):
        count = input.shape[lead + index] // size
        if count * size != input.shape[lead + index]:
            input = input.narrow(lead + index, 0, count * size)
        shape += [count, size]
    places = tuple(range(lead + 1, lead + 2 * rank, 2))
    return input.reshape(*input.shape[:lead], *shape), places


def _check_windows(pool: Any, rank: int) -> None:
    kernel = sizes(pool.kernel_size, rank)
    name = type(pool).__name__
    if sizes(pool.stride, rank) != kernel:
        raise ValueError(f"{name} needs stride = kernel_size, not {pool.stride}")
    if any(sizes(pool.padding, rank)) or pool.ceil_mode:
        raise ValueError(f"{name} takes neither padding nor ceil_mode")
    if getattr(pool, "divisor_override", None):
        raise ValueError(f"{name} takes no divisor_override")
    if any(size != 1 for size in sizes(getattr(pool, "dilation", 1), rank)):
        raise ValueError(f"{name} takes no dilation")
    if getattr(pool, "return_indices", False):
        raise ValueError(f"{name} returns no indices")


class _MeanAvgPool:
    _rank = 0
    kernel_size: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._check()

    def _check(self) -> None:
        _check_windows(self, self._rank)

    def forward(self, input: Tensor) -> Tensor:
        view, places = _windows(input, sizes(self.kernel_size, self._rank))
        return view.mean(places)


class MeanAvgPool1d(_MeanAvgPool, nn.AvgPool1d):  # type: ignore[misc]
    """`nn.AvgPool1d` with stride = kernel_size as view and mean."""

    _rank = 1


class MeanAvgPool2d(_MeanAvgPool, nn.AvgPool2d):  # type: ignore[misc]
    """`nn.AvgPool2d` with stride = kernel_size as view and mean."""

    _rank = 2


class MeanAvgPool3d(_MeanAvgPool, nn.AvgPool3d):  # type: ignore[misc]
    """`nn.AvgPool3d` with stride = kernel_size as view and mean."""

    _rank = 3


def _conv_avg_pool(
    input: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """Average pooling over the last one or two dims, without ceil_mode."""
    rank = len(kernel)
    flat = (1,) * (2 - rank)
    kernel, stride = (*flat, *kernel), (*flat, *stride)
    padding = (*(0 for _ in flat), *padding)
    x = input if rank == 2 else input.unsqueeze(-2)
    channels = x.shape[-3]
    window = x.new_ones((1, 1, *kernel))
    sums = F.conv2d(x, window.expand(channels, 1, *kernel), None, stride, padding, 1, channels)
    divisor: Any = divisor_override or math.prod(kernel)
    if any(padding) and not count_include_pad and not divisor_override:
        # How many places of each window lie in the input.
        ones = x.new_ones((1, 1, *x.shape[-2:]))
        divisor = F.conv2d(ones, window, None, stride, padding)
        divisor = divisor if x.dim() == 4 else divisor.squeeze(0)
    output = sums / divisor
    return output if rank == 2 else output.squeeze(-2)


def conv_avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`F.avg_pool2d` as a depthwise convolution with constant weights, without ceil_mode."""
    if ceil_mode:
        raise ValueError("conv_avg_pool2d takes no ceil_mode")
    kernel = sizes(kernel_size, 2)
    step = kernel if stride is None else sizes(stride, 2)
    pads = sizes(padding, 2)
    return _conv_avg_pool(input, kernel, step, pads, count_include_pad, divisor_override)


class _ConvAvgPool:
    _rank = 0
    kernel_size: Any
    stride: Any
    padding: Any
    ceil_mode: bool
    count_include_pad: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._check()

    def _check(self) -> None:
        if self.ceil_mode:
            raise ValueError(f"{type(self).__name__} takes no ceil_mode")

    def forward(self, input: Tensor) -> Tensor:
        return _conv_avg_pool(
            input,
            sizes(self.kernel_size, self._rank),
            sizes(self.stride, self._rank),
            sizes(self.padding, self._rank),
            self.count_include_pad,
            getattr(self, "divisor_override", None),
        )


class ConvAvgPool1d(_ConvAvgPool, nn.AvgPool1d):  # type: ignore[misc]
    """`nn.AvgPool1d` as a depthwise convolution with constant weights."""

    _rank = 1


class ConvAvgPool2d(_ConvAvgPool, nn.AvgPool2d):  # type: ignore[misc]
    """`nn.AvgPool2d` as a depthwise convolution with constant weights."""

    _rank = 2


class _GlobalMean:
    _rank = 0
    output_size: Any

    def __init__(self, output_size: Any = 1) -> None:
        super().__init__(output_size)  # type: ignore[call-arg]
        self._check()

    def _check(self) -> None:
        if any(size != 1 for size in sizes(self.output_size, self._rank)):
            raise ValueError(f"{type(self).__name__} needs output_size 1, not {self.output_size}")

    def forward(self, input: Tensor) -> Tensor:
        return input.mean(tuple(range(-self._rank, 0)), keepdim=True)


class GlobalMean1d(_GlobalMean, nn.AdaptiveAvgPool1d):  # type: ignore[misc]
    """`nn.AdaptiveAvgPool1d(1)` as a mean."""

    _rank = 1


class GlobalMean2d(_GlobalMean, nn.AdaptiveAvgPool2d):  # type: ignore[misc]
    """`nn.AdaptiveAvgPool2d(1)` as a mean."""

    _rank = 2


class GlobalMean3d(_GlobalMean, nn.AdaptiveAvgPool3d):  # type: ignore[misc]
    """`nn.AdaptiveAvgPool3d(1)` as a mean."""

    _rank = 3


class _AmaxPool:
    _rank = 0
    kernel_size: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._check()

    def _check(self) -> None:
        _check_windows(self, self._rank)

    def forward(self, input: Tensor) -> Tensor:
        view, places = _windows(input, sizes(self.kernel_size, self._rank))
        return view.amax(places)


class AmaxPool1d(_AmaxPool, nn.MaxPool1d):  # type: ignore[misc]
    """`nn.MaxPool1d` with stride = kernel_size as view and amax; a tie shares its gradient."""

    _rank = 1


class AmaxPool2d(_AmaxPool, nn.MaxPool2d):  # type: ignore[misc]
    """`nn.MaxPool2d` with stride = kernel_size as view and amax; a tie shares its gradient."""

    _rank = 2


class AmaxPool3d(_AmaxPool, nn.MaxPool3d):  # type: ignore[misc]
    """`nn.MaxPool3d` with stride = kernel_size as view and amax; a tie shares its gradient."""

    _rank = 3


class WindowConv2d(nn.Module):  # type: ignore[misc]
    """A strided convolution in place of a pool: one window learnt for all channels.

    Another function than max pooling, with kernel height * width weights of its own, which start
    as the mean. Input [N, C, H, W] or [C, H, W].
    """

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size = sizes(kernel_size, 2)
        self.stride = self.kernel_size if stride is None else sizes(stride, 2)
        self.padding = sizes(padding, 2)
        self.dilation = sizes(dilation, 2)
        count = math.prod(self.kernel_size)
        self.weight = nn.Parameter(torch.full((1, 1, *self.kernel_size), 1.0 / count))

    def forward(self, input: Tensor) -> Tensor:
        channels = input.shape[-3]
        weight = self.weight.expand(channels, 1, *self.kernel_size)
        return F.conv2d(
            input, weight, None, self.stride, self.padding, self.dilation, groups=channels
        )

    def extra_repr(self) -> str:
        return f"{self.kernel_size}, stride={self.stride}, padding={self.padding}"
