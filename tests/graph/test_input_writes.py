"""A model that writes into its input: the loss stays output 0, and it trains as in eager."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import graphcheck
from graphcheck.graph.capture import exported_program, trace
from graphcheck.graph.input_writes import written_inputs
from graphcheck.graph.pte import read_pte
from graphcheck.graph.trace import trace_joint
from graphcheck.workload.types import Workload

X = torch.linspace(-1, 2, 12).reshape(2, 6)


class Centred(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x.sub_(x.mean()).mul_(2)
        return self.layer(x).square().mean()


class Activated(Centred):
    """The first layer works in place, on the input."""

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(nn.functional.relu(x, inplace=True)).square().mean()


class Viewed(Centred):
    def forward(self, x: Tensor) -> Tensor:
        x.view(-1)[:3].zero_()
        return self.layer(x).square().mean()


class Reading(Centred):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x - x.mean()).square().mean()


@pytest.mark.parametrize("kind", [Centred, Activated, Viewed])
def test_the_joint_graph_writes_no_input(kind: type[nn.Module]) -> None:
    subject = Workload(kind(), (X.clone(),))
    exported, strict = exported_program(subject)
    assert written_inputs(trace_joint(exported, strict=strict).joint) == ("x",)
    joint = trace(subject).joint
    assert written_inputs(joint) == ()
    assert joint.graph_signature.output_specs[0].kind.name == "LOSS_OUTPUT"
    assert torch.equal(subject.inputs[0], X)


def test_what_only_reads_gets_no_copy() -> None:
    exported, _ = exported_program(Workload(Reading(), (X.clone(),)))
    trace(Workload(Reading(), (X.clone(),), exported=exported))
    assert "clone" not in str(exported.graph)


@pytest.mark.parametrize("kind", [Centred, Activated, Viewed])
def test_it_trains_in_the_runtime(kind: type[nn.Module], tmp_path: Path) -> None:
    module, x, path = kind(), X.clone(), tmp_path / "model.pte"
    loss = float(module(X.clone()))
    card = graphcheck.export(module, (x,), path).card
    assert card.verdict == "match"
    assert card.reference[0].loss == pytest.approx(loss, rel=1e-5)
    method = read_pte(path).method("forward")
    assert method.values[method.outputs[0]].shape == ()
    assert torch.equal(x, X)
