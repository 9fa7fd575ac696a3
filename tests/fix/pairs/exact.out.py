#!/usr/bin/env python3
"""Several exact swaps, with comments and odd formatting that stay."""
from math import sqrt  # used

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import SiLU
from graphcheck.layers import CatZeroPad2d, ConvAvgPool2d, MaskDropout2d, MeanAvgPool2d, conv_avg_pool2d, sigmoid_silu
from graphcheck import make_trainable


def act():
    return SiLU()   # keep this comment


class Net(nn.Module):
    def __init__( self ):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.body = make_trainable(nn.Sequential(
            MeanAvgPool2d(2),  # halves
            CatZeroPad2d(
                padding=(1, 0, 2, 1),  # left, right, top, bottom
            ),
            act(),
            nn.Conv2d(4, 4, 3),
            ConvAvgPool2d(3, stride=1, padding=1),
            MaskDropout2d(p=.25),
        ), swaps=["silu-as-sigmoid"]).module
        self.head = nn.Linear(4, 2)

    def forward(self, x, y):
        h = self.body(self.conv(x))
        h = conv_avg_pool2d(sigmoid_silu(h),
                         2)
        return F.cross_entropy(self.head(h.mean((2, 3)) * sqrt(2.0)), y)


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(3, 1, 12, 12), torch.tensor([0, 1, 1])
