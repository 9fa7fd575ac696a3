# fix: --swap tied-weights-as-reuse --swap relu-out-of-place
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 6)
        self.act = nn.ReLU(inplace=True)
        self.leaky = nn.LeakyReLU(0.1, inplace=True)
        self.a = nn.Linear(6, 6)
        self.b = nn.Linear(6, 6)
        self.out = nn.Linear(6, 9)
        self.out.weight = self.embed.weight  # tied

    def forward(self, ids, y):
        h = self.leaky(self.b(self.act(self.a(self.embed(ids)))))
        return F.cross_entropy(self.out(h).flatten(0, 1), y.flatten())


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randint(0, 9, (3, 4)), torch.randint(0, 9, (3, 4))
