"""What `check` says of swaps is what `fix` and `make_trainable` can do."""

from __future__ import annotations

import torch
from torch import nn

import graphcheck
from graphcheck.opset.format import read
from graphcheck.opset.swaps import swap_catalogue
from graphcheck.resources import opsets_dir
from graphcheck.rules.kernels import _MendFile
from graphcheck.swap.interface import all_swaps


class Net(nn.Module):
    def __init__(self, norm: type[nn.Module]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = norm(4) if norm is nn.BatchNorm2d else norm(2, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x))).mean()


def test_batch_norm_has_suggestions_that_exist() -> None:
    report = graphcheck.check(Net(nn.BatchNorm2d), torch.randn(2, 1, 6, 5))
    notes = [finding for finding in report.findings if finding.code == "GC601"]
    assert {note.module for note in notes} == {"norm"}
    mends = {mend.name: mend for note in notes for mend in note.mends}
    assert list(mends) == ["batch-norm-as-group-norm", "frozen-batch-norm", "fold-batch-norm"]
    assert mends["frozen-batch-norm"].command == "graphcheck fix --swap frozen-batch-norm"
    for name, mend in mends.items():
        assert mend.exact is all_swaps()[name].entry.exact


def test_group_norm_has_none() -> None:
    report = graphcheck.check(Net(nn.GroupNorm), torch.randn(2, 1, 6, 5))
    assert [finding.code for finding in report.findings if finding.code == "GC601"] == []


def test_mends_name_known_swaps() -> None:
    for path in (opsets_dir() / "mends").glob("*.yaml"):
        for mend in read(path, _MendFile).mends:
            if mend.kind == "swap":
                assert mend.exact is swap_catalogue()[mend.name].exact, mend.name


def test_catalogue_names_classes_and_functions_of_torch() -> None:
    for entry in swap_catalogue().values():
        assert all(hasattr(nn, name) for name in entry.modules), entry.name
        assert all(hasattr(nn.functional, name) for name in entry.functions), entry.name
        assert entry.remark
