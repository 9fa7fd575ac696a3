"""The backward of F.pad is a pad with negative lengths, which the kernel refuses in the first step."""
import torch
import torch.nn.functional as F
from torch import nn
from graphcheck.layers import pad_by_cat


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 2, 3, padding=1)
        self.b = nn.Conv2d(2, 2, 3)
        self.fc = nn.Linear(2, 2)

    def forward(self, x, y):
        h = pad_by_cat(self.a(x), (1, 2, 0, 1))
        return F.cross_entropy(self.fc(torch.relu(self.b(h)).mean((2, 3))), y)


def get_model():
    torch.manual_seed(0)
    return Model()


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(4, 1, 6, 7), torch.randint(0, 2, (4,))
