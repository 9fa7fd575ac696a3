# fix: --swap batch-norm-as-group-norm
import torch
from torch import nn
from torchvision.ops import Conv2dNormActivation


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.body = Conv2dNormActivation(4, 8, 3)

    def forward(self, x):
        return self.body(self.norm(self.stem(x))).square().mean()


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(4, 1, 9, 8)
