"""The command itself, through its child processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import graphcheck
from graphcheck.cli.main import run

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x))).mean()


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(4, 1, 9, 9)
"""


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    file = tmp_path / "net.py"
    file.write_text(NET)
    return file


def test_fix_from_end_to_end(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fix", "net.py", "--groups", "2", "--diff"]) == 1
    out = capsys.readouterr().out
    assert "+        self.norm = nn.GroupNorm(2, 4)\n" in out
    assert out.endswith("would change net.py\n")
    assert net.read_text() == NET
    assert run(["fix", "net.py", "--groups", "2"]) == 0
    assert capsys.readouterr().out == (
        "fixed norm: batch-norm-as-group-norm=2 (changes the function) in net.py:9: 2 groups of 2 "
        "channels, scale and shift kept\n"
        "wrote net.py\n"
        "Build the optimizer after the swap: it must hold the parameters of the model as it is "
        "now.\n"
        "left: No problems in 68 operator calls (61 of them backward).\n"
    )
    assert net.read_text() == NET.replace("nn.BatchNorm2d(4)", "nn.GroupNorm(2, 4)")


def test_an_unknown_swap_is_refused_before_any_work(
    net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fix", "net.py", "--swap", "group-norm"]) == 2
    error = capsys.readouterr().err
    assert "There is no swap 'group-norm'." in error
    assert "Did you mean batch-norm-as-group-norm?" in error


def test_export_swaps_and_says_so(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", "net.py", "-o", "net.pte", "--no-validate"]
    assert run([*words, "--swap", "batch-norm-as-group-norm=2"]) == 0
    assert (
        "swap batch-norm-as-group-norm (x1, norm), function: 2 groups of 2 channels, scale and "
        "shift kept\n"
    ) in capsys.readouterr().out
    card = json.loads((net.parent / "net.card.json").read_text())
    assert card["swaps"] == [
        {
            "name": "batch-norm-as-group-norm",
            "change": "function",
            "modules": ["norm"],
            "what": ["2 groups of 2 channels, scale and shift kept"],
        }
    ]
    assert card["mutated_buffers"] == []
    assert net.read_text() == NET


def test_export_refuses_a_swap_that_fits_nothing(
    net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", "net.py", "-o", "net.pte", "--no-validate"]
    assert run([*words, "--swap", "silu-as-sigmoid"]) == 2
    assert "--swap silu-as-sigmoid fits no module of the model." in capsys.readouterr().err
    assert not (net.parent / "net.pte").exists()


def test_public_functions_stay_callable() -> None:
    """Importing a package of the same name must not take a function's place."""
    import graphcheck.validate.run as used

    assert used.__all__

    for name in ("check", "fix", "make_trainable", "validate"):
        assert callable(getattr(graphcheck, name)), name
