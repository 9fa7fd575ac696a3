"""Lowers models without any rewrite; run as a script in a child process.

`python build_models.py FOLDER` writes `NAME.pte` and `NAME.npz` (inputs, and eager's losses and
gradients over `STEPS` steps of plain SGD) for models that need the library and controls that do
not.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from torch import nn

STEPS = 5
LEARNING_RATE = 0.05


class Net(nn.Module):
    """Layers one after the other; the mean of the squared distances from a target is the loss."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.layers(x).flatten(1).mean(1), y)


class Sorted(nn.Module):
    """Sorting, and an embedding whose rows repeat."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(6, 5, padding_idx=0)
        self.weight = nn.Parameter(torch.randn(5))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        rows = self.embed(x).sum(1).sort(dim=1).values
        return F.mse_loss(rows @ self.weight, y)


def _conv(channels: int = 4, **options: int) -> nn.Conv2d:
    return nn.Conv2d(3, channels, 3, padding=1, **options)


NEEDING = {
    "seed_cnn": lambda: Net(
        _conv(), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.MaxPool2d(2)
    ),
    "overlap_pool": lambda: Net(_conv(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(4, 2, 1)),
    "avg_pool": lambda: Net(_conv(), nn.AvgPool2d(3, 2, 1), nn.Conv2d(4, 2, 1)),
    "adaptive_pool": lambda: Net(_conv(), nn.AdaptiveAvgPool2d((3, 5)), nn.Conv2d(4, 2, 1)),
    "pad_between": lambda: Net(_conv(), nn.ConstantPad2d((1, 2, 0, 1), 0.5), nn.Conv2d(4, 2, 3)),
    "conv1d": lambda: Net(
        nn.Flatten(2), nn.Conv1d(3, 4, 5, stride=2), nn.ReLU(), nn.ConvTranspose1d(4, 2, 3)
    ),
    "transposed": lambda: Net(_conv(), nn.ReLU(), nn.ConvTranspose2d(4, 2, 3, stride=2)),
    "far_norms": lambda: Net(
        _conv(), nn.GroupNorm(2, 4), nn.Conv2d(4, 3, 1), nn.LayerNorm([12, 10])
    ),
    "sorted": Sorted,
}
CONTROLS = {
    "strided": lambda: Net(_conv(stride=2), nn.ReLU(), nn.Conv2d(4, 2, 3, stride=2)),
    "strided_wide": lambda: Net(_conv(6, stride=3), nn.Tanh(), nn.Conv2d(6, 2, 2, stride=2)),
    "conv_only": lambda: Net(_conv(), nn.ReLU(), nn.Conv2d(4, 2, 3)),
    "pool_only": lambda: Net(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(90, 3)),
    "mlp": lambda: Net(nn.Flatten(), nn.Linear(360, 8), nn.ReLU(), nn.Linear(8, 2)),
}


def _inputs(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    target = torch.randn(4)
    if name == "sorted":
        return torch.randint(0, 6, (4, 7)), target
    shift = 30.0 if name == "far_norms" else 0.0
    return torch.randn(4, 3, 12, 10) + shift, target


def _build(name: str, folder: Path) -> None:
    from executorch.exir import EdgeCompileConfig, to_edge
    from torch.export.experimental import _export_forward_backward

    torch.manual_seed(3)
    model = {**NEEDING, **CONTROLS}[name]()
    inputs = _inputs(name)
    joint = _export_forward_backward(torch.export.export(model, inputs, strict=False))
    edge = to_edge(joint, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    (folder / f"{name}.pte").write_bytes(bytes(edge.to_executorch().buffer))
    facts = {f"input/{k}/{str(t.dtype)[6:]}": t.numpy() for k, t in enumerate(inputs)}
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(*inputs)
        loss.backward()
        losses.append(float(loss))
        for parameter, value in model.named_parameters():
            facts[f"gradient/{step}/{parameter}"] = value.grad.numpy().copy()
        optimizer.step()
    facts["losses"] = numpy.array(losses)
    numpy.savez(folder / f"{name}.npz", **facts)


if __name__ == "__main__":
    for model_name in (*NEEDING, *CONTROLS):
        _build(model_name, Path(sys.argv[1]))
