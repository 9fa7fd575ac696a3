"""A difference that export itself makes is told, where no instruction of the program is wrong."""

from __future__ import annotations

import pytest
import torch
from fake_device import no_runtime
from torch import Tensor, nn

from graphcheck.options import ValidateOptions
from graphcheck.validate.run import validate_workload
from graphcheck.workload.types import Workload


class Reversed(nn.Module):
    """A layer whose gradient a hook turns round."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.last = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        if h.requires_grad:
            h.register_hook(_minus)
        return self.last(h).square().mean()


def _minus(gradient: Tensor) -> Tensor:
    return -gradient


def test_a_lost_hook_is_named() -> None:
    if no_runtime():
        pytest.skip(no_runtime())
    torch.manual_seed(0)
    subject = Workload(Reversed(), (torch.randn(2, 4),), root_type="Reversed", target="m.py")
    verdict = validate_workload(subject, ValidateOptions(target="m.py", steps=2))
    assert verdict.verdict == "diverged"
    assert (
        "so the fault is in what export leaves out: Gradient hooks are lost in export (_minus on a "
        "tensor of forward): the gradient of first."
    ) in verdict.reason
