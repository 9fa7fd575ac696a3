"""Buffers that forward assigns anew keep what autograd saved, as in eager PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from graphcheck.graph.assigned_buffers import keep_saved_values, was_modified
from graphcheck.graph.capture import joint_program
from graphcheck.graph.trace import export, trace_joint
from graphcheck.workload.types import Workload


class Counted(nn.Module):
    """Divided by a count that was raised in place."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("n", torch.tensor(1.0))
        self.n: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.n += 1
        return (self.fc(x) / self.n).square().mean()


class Running(nn.Module):
    """Divided by a running scale, which is replaced after that."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("scale", torch.full((3,), 2.0))
        self.scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        y = h / self.scale
        self.scale = 0.9 * self.scale + 0.1 * h.detach().abs().mean(0)
        return y.square().mean()


X = torch.linspace(-1, 1, 8).reshape(2, 4)


def _joint_values(joint: object, module: nn.Module) -> list[Tensor]:
    """Loss, new buffer and gradients, run in eager."""
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    signature = joint.graph_signature  # type: ignore[attr-defined]
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    inputs = [
        held[names[node.name]].detach().clone() if node.name in names else X
        for node in joint.graph.nodes  # type: ignore[attr-defined]
        if node.op == "placeholder"
    ]
    return [
        value
        for value in joint.graph_module(*inputs)  # type: ignore[attr-defined]
        if isinstance(value, Tensor)
    ]


@pytest.mark.parametrize(("kind", "copies"), [(Counted, 0), (Running, 1)])
def test_the_joint_graph_computes_what_eager_does(kind: type[nn.Module], copies: int) -> None:
    torch.manual_seed(0)
    module = kind()
    subject = Workload(module, (X,), root_type=kind.__name__, target="model.py")
    with pytest.raises(RuntimeError) as refused:
        trace_joint(export(subject, strict=False), strict=False)
    assert was_modified(refused.value)

    exported = export(subject, strict=False)
    joint = joint_program(exported, subject, strict=False).joint
    assert str(exported.graph).count("aten.clone.default") == copies
    found = _joint_values(joint, module)
    loss = module(X)
    loss.backward()
    written = next(iter(module.buffers()))
    wanted = [loss.detach(), written, *(p.grad for p in module.parameters())]
    for value in wanted:
        assert any(
            value.shape == other.shape and torch.allclose(value, other, atol=1e-6)
            for other in found
        ), (value, found)


def test_a_write_in_the_users_words_stays() -> None:
    class Copied(Running):
        def forward(self, x: Tensor) -> Tensor:
            y = self.fc(x) / self.scale
            self.scale.copy_(0.9 * self.scale)
            return y.square().mean()

    exported = export(Workload(Copied(), (X,)), strict=False)
    before = str(exported.graph)
    assert not keep_saved_values(exported)
    assert str(exported.graph) == before
