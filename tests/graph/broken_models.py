"""Models that cannot be trained as they are, each for one reason."""

from __future__ import annotations

import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)


class Healthy(Base):
    def forward(self, x):
        return self.fc(x).sum()


class If(Base):
    def forward(self, x):
        y = self.fc(x)
        if y.sum() > 0:
            y = y * 2
        return y.sum()


class While(Base):
    def forward(self, x):
        y = self.fc(x)
        while y.abs().max() > 1:
            y = y / 2
        return y.sum()


class Assert(Base):
    def forward(self, x):
        y = self.fc(x)
        assert not torch.isnan(y).any()
        return y.sum()


class LoopBound(Base):
    def forward(self, x):
        y = self.fc(x)
        for _ in range(int(x.abs().max().item())):
            y = y * 2
        return y.sum()


class WritesInPlace(Base):
    def forward(self, x):
        with torch.no_grad():
            self.fc.weight.clamp_(-1, 1)
        return self.fc(x).sum()


class WritesData(Base):
    def forward(self, x):
        self.fc.weight.data.mul_(0.9)
        return self.fc(x).sum()


class ReplacesData(Base):
    def forward(self, x):
        self.fc.weight.data = self.fc.weight.data.clamp(-1, 1)
        return self.fc(x).sum()


class MaxNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3, max_norm=1.0)

    def forward(self, i):
        return self.embed(i).sum()


class NotScalar(Base):
    def forward(self, x):
        return self.fc(x).square()


class OneElement(Base):
    def forward(self, x):
        return self.fc(x).argmax()


class PythonNumber(Base):
    def forward(self, x):
        return self.fc(x).sum().item()


class LossSecond(Base):
    def forward(self, x):
        y = self.fc(x)
        return y, y.sum()


class LossInDict(Base):
    def forward(self, x):
        y = self.fc(x)
        return {"logits": y.detach(), "loss": y.sum()}


class NotDetached(Base):
    def forward(self, x):
        y = self.fc(x)
        return y.sum(), y


class Detached(Base):
    def forward(self, x):
        y = self.fc(x).detach()
        return y.sum()


class NoGrad(Base):
    def forward(self, x):
        with torch.no_grad():
            return self.fc(x).sum()


class NotUsed(Base):
    def forward(self, x):
        return x.sum()


class Frozen(Base):
    def __init__(self):
        super().__init__()
        self.requires_grad_(False)

    def forward(self, x):
        return self.fc(x).sum()


class Mode(Base):
    def forward(self, x, mode):
        return self.fc(x).sum() if mode == "sum" else self.fc(x).mean()


class HiddenList(Base):
    def __init__(self):
        super().__init__()
        self.blocks = [nn.Linear(8, 8), nn.Linear(8, 8)]

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.fc(x).sum()


class HiddenDict(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(HiddenList())
        self.heads = {"a": (nn.Linear(8, 1),), "b": None}

    def forward(self, x):
        return self.inner(x) + self.heads["a"][0](x).sum()


class OnlyHidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [nn.Linear(8, 8)]

    def forward(self, x):
        return self.blocks[0](x).sum()


class RegisteredList(Base):
    """The list only repeats what is registered: nothing is hidden."""

    def __init__(self):
        super().__init__()
        self.other = nn.Linear(8, 8)
        self.blocks = [self.fc, self.other]

    def forward(self, x):
        return self.blocks[1](self.blocks[0](x)).sum()


class WrongShape(Base):
    def forward(self, x):
        return self.fc(x[:, :3]).sum()


class Refuses(Base):
    def forward(self, x):
        if x.shape[1] != 4:
            raise ValueError(f"{x.shape[1]} features, not 4")
        return self.fc(x).sum()


class Ctc(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 5)
        self.loss = nn.CTCLoss()

    def forward(self, x, target, lengths, target_lengths):
        scores = self.fc(x).log_softmax(-1)
        return self.loss(scores, target, lengths, target_lengths)


class NoDerivative(Base):
    def forward(self, x):
        return torch.unique(self.fc(x)).sum()


class WrittenAfterUse(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(8))

    def forward(self, x):
        y = self.fc(x) / self.scale.mean()
        z = torch.sigmoid(y)
        with torch.no_grad():
            self.scale.mul_(0.9)
        z.mul_(2)
        return z.sum()


class AddedAfterUse(Base):
    def forward(self, x):
        h = torch.sigmoid(self.fc(x))
        h += x.mean() - 1
        return h.sum()


class ElementAfterUse(Base):
    def forward(self, x):
        h = torch.sigmoid(self.fc(x))
        h[:, 0] = 0
        return h.sum()


class LayerAfterUse(Base):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(torch.sigmoid(self.fc(x))).sum()


class BufferAfterUse(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("decay", torch.ones(8))

    def forward(self, x):
        y = self.fc(x) * self.decay
        with torch.no_grad():
            self.decay.mul_(0.9)
        return y.sum()


class Inverse(Base):
    def forward(self, x):
        return torch.linalg.inv(self.fc(x) @ x.mT).sum()


class Power(Base):
    def forward(self, x):
        return torch.linalg.matrix_power(self.fc(x) @ x.mT, -2).sum()


class FixedBatch(Base):
    def forward(self, x):
        return (self.fc(x) + torch.zeros(4, 1)).sum()


class Scripted(Base):
    def __init__(self):
        super().__init__()
        self.scripted = torch.jit.script(nn.Linear(8, 8))

    def forward(self, x):
        return self.scripted(self.fc(x)).sum()


class ManyFaults(Base):
    def __init__(self):
        super().__init__()
        self.blocks = [nn.Linear(8, 8)]

    def forward(self, x):
        with torch.no_grad():
            self.fc.bias.zero_()
        y = self.blocks[0](self.fc(x))
        if y.mean() > 0:
            y = y * 2
        return y


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Double(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class StraightThrough(Base):
    def forward(self, x):
        return Round.apply(self.fc(x)).sum()


class HonestFunction(Base):
    def forward(self, x):
        return Double.apply(self.fc(x)).sum()
