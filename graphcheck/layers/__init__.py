"""Layers that train on the unpatched ExecuTorch runtime, for use in models.

Each has the constructor, the parameters and the state dict of the torch layer it stands for, and
computes the same function unless it says otherwise. They need torch alone. Importing this package
imports torch; nothing of graphcheck imports it before there is a model.
"""

from __future__ import annotations

from graphcheck.layers.activation import SigmoidSiLU, sigmoid_silu
from graphcheck.layers.attention import ExplicitMultiheadAttention, explicit_attention
from graphcheck.layers.convolution import Conv1dAsConv2d, conv1d_as_conv2d
from graphcheck.layers.dropout import (
    MaskDropout,
    MaskDropout1d,
    MaskDropout2d,
    MaskDropout3d,
    mask_dropout,
    mask_dropout1d,
    mask_dropout2d,
    mask_dropout3d,
)
from graphcheck.layers.normalisation import (
    FrozenBatchNorm1d,
    FrozenBatchNorm2d,
    FrozenBatchNorm3d,
)
from graphcheck.layers.padding import (
    CatConstantPad1d,
    CatConstantPad2d,
    CatConstantPad3d,
    CatZeroPad1d,
    CatZeroPad2d,
    CatZeroPad3d,
    pad_by_cat,
)
from graphcheck.layers.pooling import (
    AmaxPool1d,
    AmaxPool2d,
    AmaxPool3d,
    ConvAvgPool1d,
    ConvAvgPool2d,
    GlobalMean1d,
    GlobalMean2d,
    GlobalMean3d,
    MeanAvgPool1d,
    MeanAvgPool2d,
    MeanAvgPool3d,
    WindowConv2d,
    conv_avg_pool2d,
)
from graphcheck.layers.reuse import TiedLinear

__all__ = [
    "AmaxPool1d",
    "AmaxPool2d",
    "AmaxPool3d",
    "CatConstantPad1d",
    "CatConstantPad2d",
    "CatConstantPad3d",
    "CatZeroPad1d",
    "CatZeroPad2d",
    "CatZeroPad3d",
    "Conv1dAsConv2d",
    "ConvAvgPool1d",
    "ConvAvgPool2d",
    "ExplicitMultiheadAttention",
    "FrozenBatchNorm1d",
    "FrozenBatchNorm2d",
    "FrozenBatchNorm3d",
    "GlobalMean1d",
    "GlobalMean2d",
    "GlobalMean3d",
    "MaskDropout",
    "MaskDropout1d",
    "MaskDropout2d",
    "MaskDropout3d",
    "MeanAvgPool1d",
    "MeanAvgPool2d",
    "MeanAvgPool3d",
    "SigmoidSiLU",
    "TiedLinear",
    "WindowConv2d",
    "conv1d_as_conv2d",
    "conv_avg_pool2d",
    "explicit_attention",
    "mask_dropout",
    "mask_dropout1d",
    "mask_dropout2d",
    "mask_dropout3d",
    "pad_by_cat",
    "sigmoid_silu",
]
