"""A small next-word model with attention, dropout, and an output layer tied to the embedding."""

import torch
import torch.nn.functional as F
from torch import nn


class NextWord(nn.Module):
    def __init__(self, words=50, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(words, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(width, words, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens, following):
        batch, length = tokens.shape
        h = self.embed(tokens)
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm(h)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.drop(mixed.transpose(1, 2).flatten(2))
        return F.cross_entropy(self.out(h).flatten(0, 1), following.flatten())


def get_model():
    torch.manual_seed(0)
    return NextWord()


def get_example_inputs():
    torch.manual_seed(1)
    tokens = torch.randint(0, 50, (4, 9))
    return tokens[:, :-1], tokens[:, 1:]
