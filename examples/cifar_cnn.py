"""An image classifier as one would write it for CIFAR-10: it trains in eager, and not on device."""

import torch
from torch import nn


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.pool2 = nn.MaxPool2d(2)

    def forward(self, x):
        x = self.pool1(torch.relu(self.conv1(x)))
        return self.pool2(torch.relu(self.conv2(x)))


class CifarNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.net = Features()
        self.head = nn.Linear(32 * 8 * 8, classes)

    def forward(self, x):
        return self.head(self.net(x).flatten(1))


def get_model():
    torch.manual_seed(0)
    return CifarNet()


def get_example_inputs():
    torch.manual_seed(1)
    return (torch.randn(8, 3, 32, 32),)


def get_loss():
    return nn.CrossEntropyLoss()


def get_example_targets():
    torch.manual_seed(2)
    return torch.randint(0, 10, (8,))
