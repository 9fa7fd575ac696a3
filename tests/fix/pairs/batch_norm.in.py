# BatchNorm stays by default: no exact swap, and export mends it.
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.pool = nn.MaxPool2d(3, 2)

    def forward(self, x):
        return F.relu(self.pool(self.norm(self.conv(x)))).mean()


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(4, 1, 9, 9)
