"""Source lines that the samples point at; never imported."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(8, 8, 3)  # graphcheck: ignore[GC101]
        self.pool2 = nn.MaxPool2d(2)

    def forward(self, x):
        x = x + 1
        x = self.pool1(torch.relu(self.conv1(x)))
        x = self.pool2(torch.relu(self.conv2(x)))
        loss = x.double().mean()
        return loss
