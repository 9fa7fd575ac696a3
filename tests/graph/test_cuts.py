"""Where a parameter is cut off from the loss, as it is found in an exported program."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from graphcheck.graph.capture import capture
from graphcheck.workload.load import from_module


class Cut(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.a = nn.Linear(6, 5)
        self.b = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if self.how == "detach()":
            h = torch.relu(self.a(x)).detach()
        elif self.how == "no_grad":
            with torch.no_grad():
                h = torch.relu(self.a(x))
        elif self.how == "integers":
            h = torch.relu(self.a(x)).argmax(-1, keepdim=True) * torch.ones(5)
        else:
            h = torch.relu(self.a(x))
        return F.mse_loss(self.b(h), y)


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("detach()", "h = torch.relu(self.a(x)).detach()"),
        ("no_grad", "h = torch.relu(self.a(x))"),
    ],
)
def test_the_line_that_cuts(how: str, code: str) -> None:
    graph = capture(from_module(Cut(how), (torch.randn(4, 6), torch.randn(4, 3))))
    facts = {fact.name: fact for fact in graph.parameters}
    weight = facts["a.weight"]
    assert not weight.has_gradient
    assert weight.cut_by == how
    assert weight.cut is not None
    lines, start = inspect.getsourcelines(Cut)
    inside = how == "no_grad"
    assert lines[weight.cut.line - start].strip() == code or inside
    assert facts["b.weight"].cut is None


@pytest.mark.parametrize("how", ["integers", "nothing"])
def test_nothing_is_named_where_there_is_no_such_line(how: str) -> None:
    graph = capture(from_module(Cut(how), (torch.randn(4, 6), torch.randn(4, 3))))
    assert all(fact.cut is None for fact in graph.parameters)
