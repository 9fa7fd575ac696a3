"""Small models whose training runs the kernels that have mutants: odd shapes, few symmetries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

__all__ = ["MODELS", "workload"]


def _targets(batch: int, classes: int) -> torch.Tensor:
    return torch.arange(batch) * 5 % classes


class Convolutions(nn.Module):
    """Convolutions with uneven kernels, strides, padding, dilation and groups."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 0))
        self.grouped = nn.Conv2d(4, 6, 3, padding=(2, 1), dilation=(2, 1), groups=2)
        self.last = nn.Conv2d(6, 4, 2, stride=(1, 2), bias=False)
        self.fc = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(torch.relu(self.grouped(x))) - 0.05
        x = torch.tanh(self.last(x))
        return nn.functional.cross_entropy(self.fc(x.mean((2, 3))), y)

    @staticmethod
    def example() -> tuple[torch.Tensor, ...]:
        return torch.randn(3, 3, 9, 7), _targets(3, 5)


class Pools(nn.Module):
    """Pools whose windows overlap, hang over and are padded."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.conv2 = nn.Conv2d(3, 3, 1)
        self.conv3 = nn.Conv2d(3, 3, 1)
        self.fc = nn.Linear(3 * 5 * 3, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        pool = nn.functional.max_pool2d
        mean = nn.functional.avg_pool2d
        x = pool(self.conv(x) - 3.0, 3, stride=(2, 1), padding=(1, 1), ceil_mode=True)
        x = mean(self.conv2(x), (3, 2), stride=2, padding=(1, 0), ceil_mode=True)
        x = mean(self.conv3(x), 2, stride=(1, 2), padding=1, count_include_pad=False)
        x = nn.functional.pad(x, (1, 0, 2, 0), value=0.5)
        x = x[:, :, 2:7, 1:4] * torch.tensor([[1.0], [2.0], [0.5], [1.5], [0.7]])
        return nn.functional.cross_entropy(self.fc(x.flatten(1)), y)

    @staticmethod
    def example() -> tuple[torch.Tensor, ...]:
        return torch.randn(2, 2, 10, 7), _targets(2, 4)


class Rows(nn.Module):
    """Matrix products, norms, softmax and reductions on square and uneven matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm(8)
        self.query = nn.Linear(8, 8)
        self.key = nn.Linear(8, 8, bias=False)
        self.gelu = nn.Linear(8, 6)
        self.out = nn.Linear(6, 6)
        self.scale = nn.Parameter(torch.linspace(0.5, 2.0, 8))
        self.rows = nn.Parameter(torch.linspace(0.5, 2.0, 4).reshape(4, 1))

    def forward(self, tokens: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embed(tokens)) * self.scale
        q, k = self.query(x), self.key(x)
        weights = torch.softmax(q @ k.transpose(1, 2) * 9.0, dim=-1)
        x = torch.add(weights @ x, k, alpha=0.3)
        x = torch.cat([x.amax(1), torch.sigmoid(x * 3).sum(1)], dim=0)
        x = self.out(nn.functional.gelu(self.gelu(x)) - 0.5)
        x = x / (1.0 + x.square().mean(1, keepdim=True).sqrt()) * self.rows
        x = x + torch.exp(x[:, :1]) * torch.where(x > 0.1, x, x * 0.2)
        return nn.functional.cross_entropy(x, y, label_smoothing=0.1)

    @staticmethod
    def example() -> tuple[torch.Tensor, ...]:
        return torch.arange(8).reshape(2, 4) * 3 % 7, _targets(4, 6)


class Squares(nn.Module):
    """Square tensors, where a swapped dim has the right shape; picks, scans and copies."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(5, 5)
        self.b = nn.Linear(5, 5, bias=False)
        self.group = nn.GroupNorm(1, 5, eps=1e-2)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.group(self.a(x))
        x = self.b(x.permute(1, 0).contiguous()) + x.var(1, keepdim=True)
        x = torch.cumsum(x, 1) * 0.3 + (x * torch.sigmoid(x)).clamp(-0.1, 0.9)
        top, _ = x.topk(2, dim=1)
        near = x.gather(1, (y.unsqueeze(1) + torch.tensor([[1, 1, 3]])) % 5).sum(1, keepdim=True)
        best, _ = x.max(1)
        x = x + top.sum(1, keepdim=True) * 0.1 + near + best.unsqueeze(1) * x.mean(0)
        mixed = torch.stack([x[:, 4], x[:, 0], x[:, 2], x[:, 1], x[:, 3]], dim=1)
        x = x + (mixed - x.mean()).pow(3) * 1e-4
        loss = torch.log_softmax(x, 1).gather(1, y.unsqueeze(1)).mean().neg()
        return loss + x.sum(0).square().sum() * 0.01

    @staticmethod
    def example() -> tuple[torch.Tensor, ...]:
        return torch.randn(5, 5), _targets(5, 5)


class Halves(nn.Module):
    """bfloat16: long sums of terms of one sign, which belong in float."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.rand(900, 3) + 0.5).bfloat16())
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = torch.mm(x, self.weight) * self.scale
        return (made / 512).square().float().mean()

    @staticmethod
    def example() -> tuple[torch.Tensor, ...]:
        return ((torch.rand(4, 900) + 0.5).bfloat16(),)


class Ties(nn.Module):
    """A max pool that meets exact ties of different patches: sums of small whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 1)
        nn.init.ones_(self.conv.weight)
        nn.init.zeros_(self.conv.bias)
        self.fc = nn.Linear(2 * 3 * 4, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.conv(x), 2)
        return nn.functional.cross_entropy(self.fc(x.flatten(1)), y)

    @staticmethod
    def example() -> tuple[torch.Tensor, ...]:
        return torch.randint(0, 3, (3, 2, 6, 8)).float(), _targets(3, 3)


MODELS: dict[str, Callable[[], Any]] = {
    "convolutions": Convolutions,
    "pools": Pools,
    "rows": Rows,
    "squares": Squares,
    "halves": Halves,
    "ties": Ties,
}


def workload(name: str) -> Any:
    """The model as graphcheck takes it; the same weights and inputs each time."""
    from graphcheck.workload.types import Workload

    torch.manual_seed(len(name))
    model = MODELS[name]()
    return Workload(model, model.example(), root_type=type(model).__name__, target=name)
