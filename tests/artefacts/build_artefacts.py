"""Writes the files of the artefact tests; run as a script in a child process.

`python build_artefacts.py FOLDER`: programs (`.pte`, one with its weights outside), what
ExecuTorch's own tool lists as their operators (`.oplist.yaml`), and exported programs (`.pt2`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import export
from torch.export.experimental import _export_forward_backward


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 1)

    def forward(self, x):
        return self.a(x).mean()


class Lists(nn.Module):
    """Kernels that take and return lists of tensors."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.e = nn.Embedding(5, 4)

    def forward(self, x, i, y):
        a, b, c = torch.cat([self.a(x), self.e(i), x], 1).split(4, 1)
        z = torch.stack([a, b + c])[:, torch.tensor([0, 1, 1])]
        return F.mse_loss(z, y)


class Pools(nn.Module):
    """Max pooling before and behind a layer that trains."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 3, padding=1)
        self.conv2 = nn.Conv2d(2, 3, 3, padding=1)
        self.fc = nn.Linear(12, 2)

    def forward(self, x, y):
        x = F.max_pool2d(torch.relu(self.conv1(F.max_pool2d(x, 2))), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        return F.cross_entropy(self.fc(x.flatten(1)), y)


class Predicts(nn.Module):
    """A model without a loss."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.norm(x))


class Faulty(nn.Module):
    """A buffer written in forward, a pool whose backward has no kernel."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8, bias=False)
        self.b = nn.Linear(8, 8, bias=False)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1.0)
        x = F.avg_pool2d(self.b(torch.tanh(self.a(x)))[None, None], 2)
        return x.square().mean()


def reached(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> dict[str, list[list[str]]]:
    """By op, the gradients that each of its calls reaches in the joint graph."""
    from graphcheck.graph.capture import capture
    from graphcheck.workload.load import from_module

    found: dict[str, list[list[str]]] = {}
    for call in capture(from_module(module, inputs)).calls:
        found.setdefault(call.op.removeprefix("aten."), []).append(sorted(call.gradients))
    return {op: sorted(rows) for op, rows in found.items()}


def main(folder: Path) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.codegen.tools import gen_oplist
    from executorch.exir import ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower

    torch.manual_seed(0)
    inputs = {
        "tiny": (torch.randn(1, 2),),
        "lists": (torch.randn(3, 4), torch.tensor([0, 1, 2]), torch.randn(2, 3, 4)),
        "pools": (torch.randn(2, 1, 16, 16), torch.tensor([0, 1])),
        "predicts": (torch.randn(5, 4),),
        "faulty": (torch.randn(4, 8),),
    }
    modules = {
        "tiny": Tiny(),
        "lists": Lists(),
        "pools": Pools(),
        "predicts": Predicts(),
        "faulty": Faulty(),
    }
    forward = {n: export(m, inputs[n], strict=False) for n, m in modules.items()}
    joint = {n: _export_forward_backward(p) for n, p in forward.items() if n != "predicts"}
    torch.export.save(forward["predicts"], folder / "predicts.pt2")
    torch.export.save(forward["pools"], folder / "forward.pt2")
    torch.export.save(joint["pools"], folder / "joint.pt2")
    for name, program in joint.items():
        (folder / f"{name}.pte").write_bytes(to_edge(program).to_executorch().buffer)
    config = ExecutorchBackendConfig(external_constants=True, external_mutable_weights=False)
    outside = to_edge(export(modules["predicts"].eval(), inputs["predicts"], strict=False))
    outside = outside.to_executorch(config)
    (folder / "outside.pte").write_bytes(outside.buffer)
    (folder / "outside.ptd").write_bytes(bytes(next(iter(outside._tensor_data.values()))))
    delegated = to_edge_transform_and_lower(
        export(nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), inputs["predicts"], strict=False),
        partitioner=[XnnpackPartitioner()],
    ).to_executorch()
    (folder / "delegated.pte").write_bytes(delegated.buffer)
    for path in folder.glob("*.pte"):
        listed = folder / f"{path.stem}.oplist.yaml"
        gen_oplist.main(["--model_file_path", str(path), "--output_path", str(listed)])
    (folder / "pools.reach.json").write_text(json.dumps(reached(modules["pools"], inputs["pools"])))
    from graphcheck.graph.signatures import generate

    (folder / "signatures.txt").write_text(generate())
    (folder / "complete").write_text("yes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
