# fix: --swap batch-norm-as-group-norm=8
import torch
import torch.nn as nn
from torch.nn import BatchNorm1d, functional as F


class Block(nn.Module):
    def __init__(self, width, norm=nn.BatchNorm2d):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.bn1 = nn.BatchNorm2d(width, 1e-3, momentum=0.2, affine=True)  # shared width
        self.bn2 = torch.nn.BatchNorm2d(num_features=width,
                                        eps=1e-4)
        self.bn3 = norm(width)

    def forward(self, x):
        return self.bn3(self.bn2(self.bn1(self.conv(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block(12)
        self.head = nn.Linear(12, 16)
        self.norm = BatchNorm1d(16)

    def forward(self, x, y):
        h = self.norm(self.head(F.relu(self.block(x)).mean((2, 3))))
        return F.cross_entropy(h, y)


def get_model():
    torch.manual_seed(0)
    return Net()


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 7, 9])
