"""A keyword spotter on audio features: Conv1d, BatchNorm and average pooling."""

import torch
import torch.nn.functional as F
from torch import nn


class KeywordNet(nn.Module):
    def __init__(self, features=20, words=6):
        super().__init__()
        self.conv1 = nn.Conv1d(features, 32, 5, padding=2)
        self.norm1 = nn.BatchNorm1d(32)
        self.pool = nn.AvgPool1d(2)
        self.conv2 = nn.Conv1d(32, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm1d(32)
        self.head = nn.Linear(32, words)

    def forward(self, audio, word):
        h = self.pool(torch.relu(self.norm1(self.conv1(audio))))
        h = torch.relu(self.norm2(self.conv2(h)))
        return F.cross_entropy(self.head(h.mean(-1)), word)


def get_model():
    torch.manual_seed(0)
    return KeywordNet()


def get_example_inputs():
    torch.manual_seed(1)
    return {"audio": torch.randn(8, 20, 50), "word": torch.randint(0, 6, (8,))}
