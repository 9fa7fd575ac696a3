"""convolution_backward is registered, but refuses anything that is not 2-d and not transposed."""
import torch
import torch.nn.functional as F
from torch import nn
from graphcheck.layers import Conv1dAsConv2d


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Conv1dAsConv2d(2, 4, 3, padding=1)
        self.b = Conv1dAsConv2d(4, 3, 5, stride=2)

    def forward(self, x, y):
        return F.cross_entropy(torch.relu(self.b(torch.relu(self.a(x)))).mean(-1), y)


def get_model():
    torch.manual_seed(0)
    return Model()


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(4, 2, 15), torch.randint(0, 3, (4,))
