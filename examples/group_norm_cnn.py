"""A convolutional net that the stock runtime trains right: GroupNorm, strides in place of pools."""

import torch
import torch.nn.functional as F
from torch import nn


class GroupNormNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.norm1 = nn.GroupNorm(4, 16)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.norm2 = nn.GroupNorm(4, 32)
        self.head = nn.Linear(32, classes)

    def forward(self, x, y):
        h = F.gelu(self.norm1(self.conv1(x)))
        h = F.gelu(self.norm2(self.conv2(h)))
        return F.cross_entropy(self.head(h.mean((2, 3))), y)


def get_model():
    torch.manual_seed(0)
    return GroupNormNet()


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
