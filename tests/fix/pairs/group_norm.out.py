# fix: --swap batch-norm-as-group-norm=8
import torch
import torch.nn as nn
from torch.nn import GroupNorm, functional as F
import math
from graphcheck import make_trainable


class Block(nn.Module):
    def __init__(self, width, norm=nn.BatchNorm2d):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.bn1 = nn.GroupNorm(math.gcd(8, width), width, eps=1e-3, affine=True)  # shared width
        self.bn2 = torch.nn.GroupNorm(math.gcd(8, width), width,
                                        eps=1e-4)
        self.bn3 = norm(width)

    def forward(self, x):
        return self.bn3(self.bn2(self.bn1(self.conv(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block(12)
        self.head = nn.Linear(12, 16)
        self.norm = GroupNorm(2, 16)

    def forward(self, x, y):
        h = self.norm(self.head(F.relu(self.block(x)).mean((2, 3))))
        return F.cross_entropy(h, y)


def get_model():
    torch.manual_seed(0)
    return make_trainable(Net(), swaps=["batch-norm-as-group-norm=8"]).module


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 7, 9])
