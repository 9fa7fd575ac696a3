"""Control flow operators: what their branches hold is said not to be checked."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphcheck.graph.capture import capture
from graphcheck.opset.load import load
from graphcheck.rules.gc106_control_flow_operator import RULE
from graphcheck.rules.interface import Context
from graphcheck.workload.load import from_module


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        chosen = torch.cond(x.sum() > 0, lambda h: h * 2, lambda h: h.exp(), (hidden,))
        return chosen.pow(2).mean()


def test_the_branches_of_cond_are_an_error() -> None:
    graph = capture(from_module(Branching(), (torch.ones(3, 4),)))
    found = list(RULE.check(graph, Context(load("1.5.1"))))
    line = Branching.forward.__code__.co_firstlineno + 2
    # Forward and backward each have one.
    assert {(f.subject, f.source.line) for f in found} == {("cond", line)}
    assert found[0].message == (
        "has branches that are graphs of their own: their ops are NOT CHECKED, and training "
        "through them cannot be proven"
    )


def test_a_graph_without_branches_is_read_whole() -> None:
    class Plain(Branching):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                scale = x.sum()
            return (self.first(x) * scale).pow(2).mean()

    assert capture(from_module(Plain(), (torch.ones(3, 4),))).control_flow == ()
