"""scaled_dot_product_attention: its backward has no out variant."""
import torch
import torch.nn.functional as F
from torch import nn
from graphcheck.layers import explicit_attention


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 3)

    def forward(self, x, y):
        q, k, v = self.qkv(x).reshape(x.shape[0], x.shape[1], 3, 2, 4).permute(2, 0, 3, 1, 4)
        h = explicit_attention(q, k, v, is_causal=True)
        return F.cross_entropy(self.out(h.transpose(1, 2).flatten(2).mean(1)), y)


def get_model():
    torch.manual_seed(0)
    return Model()


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(3, 5, 8), torch.randint(0, 3, (3,))
