#!/usr/bin/env python3
"""Several exact swaps, with comments and odd formatting that stay."""
from math import sqrt  # used

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import AvgPool2d, SiLU


def act():
    return SiLU()   # keep this comment


class Net(nn.Module):
    def __init__( self ):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.body = nn.Sequential(
            AvgPool2d(2),  # halves
            nn.ZeroPad2d(
                padding=(1, 0, 2, 1),  # left, right, top, bottom
            ),
            act(),
            nn.Conv2d(4, 4, 3),
            nn.AvgPool2d(3, stride=1, padding=1),
            nn.Dropout2d(p=.25),
        )
        self.head = nn.Linear(4, 2)

    def forward(self, x, y):
        h = self.body(self.conv(x))
        h = F.avg_pool2d(F.silu(h),
                         2)
        return F.cross_entropy(self.head(h.mean((2, 3)) * sqrt(2.0)), y)


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(3, 1, 12, 12), torch.tensor([0, 1, 1])
