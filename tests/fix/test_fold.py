"""A swap that needs several modules: written around all of them, or refused in exact words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fix_words import words

from graphcheck.fixing.call import add_call
from graphcheck.fixing.types import FixResult

CNN = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.bn1 = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 4)

    def forward(self, x, y):
        x = self.bn1(self.conv1(x)).relu().mean((2, 3))
        return nn.functional.cross_entropy(self.fc(x), y)


def get_example_inputs():
    return torch.randn(2, 3, 6, 6), torch.randint(0, 4, (2,))
"""
EXPORT = "graphcheck export mends this without changing the model"
FOLD = 'graphcheck.make_trainable(model, swaps=["fold-batch-norm"]) where your code makes the model'


def test_a_lone_batch_norm_is_not_told_as_folded(
    fix: Callable[..., FixResult], tmp_path: Path
) -> None:
    """No line of the file makes both the convolution and the batch norm."""
    (tmp_path / "cnn.py").write_text(CNN)
    told = words(fix("cnn.py", swaps=("fold-batch-norm",)))
    assert told.startswith(
        "skipped bn1: GC102 aten._native_batch_norm_legit_functional: fold-batch-norm changes "
        "several modules at once, and no get_model(), `model` or attribute that holds them all "
        f"was found: call {FOLD}; {EXPORT}\nnothing was changed\nleft: Found "
    )
    assert (tmp_path / "cnn.py").read_text() == CNN


def test_an_edit_that_changes_nothing_is_taken_back(
    fix: Callable[..., FixResult], tmp_path: Path
) -> None:
    """The `model` that is wrapped is not the one that get_model gives."""
    source = CNN + "\n\nget_model = lambda: Net()\nmodel = Net()\n"
    (tmp_path / "cnn.py").write_text(source)
    result = fix("cnn.py", swaps=("fold-batch-norm",))
    assert words(result).startswith(
        "skipped bn1: GC102 aten._native_batch_norm_legit_functional: the edit was tried, and bn1 "
        f"was as before: call {FOLD}; {EXPORT}\nnothing was changed\nleft: Found "
    )
    assert result.applied == ()
    assert (tmp_path / "cnn.py").read_text() == source


def test_what_holds_both_is_wrapped(fix: Callable[..., FixResult], tmp_path: Path) -> None:
    """A module of its own for the two is swapped where it is made; a batch norm alone is not."""
    body = CNN.replace("class Net", "class Block").replace("y):", "y=None):", 1)
    body = body.replace(
        "        return nn.functional.cross_entropy(self.fc(x), y)", "        return x"
    )
    net = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.fc = nn.Linear(8, 4)

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.fc(self.block(x)), y)
"""
    (tmp_path / "cnn.py").write_text(body + net)
    result = fix("cnn.py:Net", swaps=("fold-batch-norm",), diff=True)
    assert [d.module for d in result.applied] == ["block.bn1"]
    changed = [line for line in result.diff.splitlines() if line[:1] in "+-"][2:]
    assert changed == [
        "+from graphcheck import make_trainable",
        "-        self.block = Block()",
        '+        self.block = make_trainable(Block(), swaps=["fold-batch-norm"]).module',
    ]


def test_a_batch_norm_without_convolution_says_so(
    fix: Callable[..., FixResult], tmp_path: Path
) -> None:
    (tmp_path / "cnn.py").write_text(
        CNN.replace("self.bn1(self.conv1(x))", "(self.conv1(x) * 2)")
        .replace(".mean((2, 3))", "")
        .replace("self.fc(x)", "self.fc(self.bn1(x).mean((2, 3)))")
    )
    told = words(fix("cnn.py", swaps=("fold-batch-norm",)))
    assert told.startswith(
        "skipped bn1: GC102 aten._native_batch_norm_legit_functional: fold-batch-norm: no "
        f"convolution or linear layer that feeds it alone was found; {EXPORT}\n"
    )


def test_each_line_gets_the_swaps_that_are_meant_for_it() -> None:
    source = b"class Net:\n    def __init__(self):\n        self.a = A()\n        self.b = B()\n"
    data, failures = add_call(
        source, [("silu-as-sigmoid", [9, 3]), ("fold-batch-norm", [4]), ("pad-as-cat", [1])]
    )
    assert b'self.a = make_trainable(A(), swaps=["silu-as-sigmoid"]).module\n' in data
    assert b'self.b = make_trainable(B(), swaps=["fold-batch-norm"]).module\n' in data
    assert failures == {2: "no get_model(), `model` or attribute that holds the module was found"}
