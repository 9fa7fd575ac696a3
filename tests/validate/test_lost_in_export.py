"""A difference that export itself makes is told, where no instruction of the program is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fake_device import no_runtime
from torch import Tensor, nn

import graphcheck
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


class Recurrent(nn.Module):
    """Two layers with a dropout between them, which torch's decomposition leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(4, 3, 2, dropout=0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0].square().mean()


def test_a_lost_dropout_is_named() -> None:
    if no_runtime():
        pytest.skip(no_runtime())
    torch.manual_seed(0)
    subject = Workload(Recurrent(), (torch.randn(5, 2, 4),), root_type="Recurrent", target="m.py")
    verdict = validate_workload(subject, ValidateOptions(target="m.py", steps=2))
    assert verdict.verdict == "diverged"
    assert "so the fault is in what export leaves out: aten.gru at rnn (" in verdict.reason
    assert verdict.reason.endswith(
        "loses its dropout of 0.5 between the layers in torch's own decomposition (GC303), which "
        "graphcheck export mends"
    )


class Thawing(nn.Module):
    """The first layer trains from the fourth step on, by a count that export freezes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.count = nn.Linear(4, 3), nn.Linear(3, 2), 0

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        h = self.first(x)
        return self.last(h.detach() if self.count < 4 else h).square().mean()


class Spare(Thawing):
    """The first layer trains never."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).detach()).square().mean()


def test_what_trains_later_is_not_offered_to_be_frozen(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4)
    findings = {f.code: f for f in graphcheck.check(Thawing(), (x,)).findings}
    assert findings["GC503"].mends == ()
    assert "GC016" in findings
    with pytest.raises(graphcheck.ModelError) as caught:
        graphcheck.export(Thawing(), (x,), tmp_path / "model.pte")
    assert caught.value.code == "GC016"
    assert caught.value.message.startswith(
        "the loss does not depend on first.weight, first.bias. Export keeps count as it was"
    )
    (spare,) = [f for f in graphcheck.check(Spare(), (x,)).findings if f.code == "GC503"]
    assert [mend.name for mend in spare.mends] == ["freeze"]
    with pytest.raises(graphcheck.ModelError) as caught:
        graphcheck.export(Spare(), (x,), tmp_path / "model.pte")
    assert (caught.value.code, caught.value.hint) == (
        "GC503",
        "freeze what does not train: --freeze first",
    )
