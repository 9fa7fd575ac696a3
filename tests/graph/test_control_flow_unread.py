"""Control flow operators: what their branches hold is said not to be checked."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphcheck.graph.capture import capture
from graphcheck.workload.load import from_module


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        chosen = torch.cond(x.sum() > 0, lambda h: h * 2, lambda h: h.exp(), (hidden,))
        return chosen.pow(2).mean()


def test_the_branches_of_cond_are_not_checked() -> None:
    graph = capture(from_module(Branching(), (torch.ones(3, 4),)))
    line = Branching.forward.__code__.co_firstlineno + 2
    assert graph.not_checked == (
        (
            f"the ops within cond (test_control_flow_unread.py:{line})",
            "a branch is a graph of its own, which is not read; compute both sides and choose "
            "with torch.where to have it checked",
        ),
    )


def test_a_graph_without_branches_is_read_whole() -> None:
    class Plain(Branching):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                scale = x.sum()
            return (self.first(x) * scale).pow(2).mean()

    assert capture(from_module(Plain(), (torch.ones(3, 4),))).not_checked == ()
