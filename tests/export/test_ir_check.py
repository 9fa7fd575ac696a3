"""An op that only to_edge's IR check refuses: its kernel is there, and the export uses it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x).unfold(1, 3, 2).square().sum()


def test_unfold_is_exported(tmp_path):
    from graphcheck.export.run import export_workload
    from graphcheck.export.types import ExportOptions
    from graphcheck.workload.types import Workload

    workload = Workload(module=Net(), inputs=(torch.randn(4, 8),))
    options = ExportOptions(target="net", output=str(tmp_path / "net.pte"), prove=False)
    result = export_workload(workload, options)
    assert result.card is not None, result.failure
    told = "lowered without to_edge's IR check, which refuses aten.unfold"
    assert told in result.card.corrections
    assert "aten::unfold_copy.out" in result.card.kernels
