"""What `fix` refuses, takes back and leaves alone, with the exact words."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fix_words import words

from graphcheck.errors import UsageError
from graphcheck.fixing.types import FixResult

SILU = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 8)
        self.act = nn.SiLU()
        self.b = nn.Linear(8, 3)

    def forward(self, x):
        return self.b(self.act(self.a(x))).square().mean()


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(7, 6)
"""

TRAP = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.a(x)
        g = self.act(h)
        return (g + h).square().mean()  # h is what act wrote


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(7, 6)
"""

Fix = Callable[..., FixResult]


def test_diff_writes_nothing(fix: Fix, tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(SILU)
    result = fix("net.py", diff=True)
    assert file.read_text() == SILU
    assert result.left is None
    assert words(result, diff=True) == (
        "--- a/net.py\n"
        "+++ b/net.py\n"
        "@@ -1,12 +1,13 @@\n"
        " import torch\n"
        " from torch import nn\n"
        "+from graphcheck.layers import SigmoidSiLU\n"
        " \n \n"
        " class Net(nn.Module):\n"
        "     def __init__(self):\n"
        "         super().__init__()\n"
        "         self.a = nn.Linear(6, 8)\n"
        "-        self.act = nn.SiLU()\n"
        "+        self.act = SigmoidSiLU()\n"
        "         self.b = nn.Linear(8, 3)\n"
        " \n"
        "     def forward(self, x):\n"
        "would fix act: silu-as-sigmoid (exact) in net.py:9: x * sigmoid(x)\n"
        "would change net.py\n"
    )


def test_windows_line_ends_stay(fix: Fix, tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_bytes(SILU.replace("\n", "\r\n").encode())
    assert fix("net.py").files
    data = file.read_bytes()
    assert b"SigmoidSiLU" in data
    assert data.count(b"\n") == data.count(b"\r\n")


def test_a_swap_that_changes_the_function_is_taken_back(fix: Fix, tmp_path: Path) -> None:
    """The model reads what the in-place activation wrote: out of place is another function."""
    file = tmp_path / "net.py"
    file.write_text(TRAP)
    result = fix("net.py", swaps=("relu-out-of-place",))
    assert file.read_text() == TRAP
    assert result.files == ()
    assert re.fullmatch(
        r"the swaps should keep the function, but the loss on the example inputs was "
        r"0\.\d+ and is 0\.\d+",
        result.failure,
    )
    assert words(result) == "net.py: nothing was changed.\n"


def test_what_is_taken_back_keeps_the_rest(fix: Fix, tmp_path: Path) -> None:
    """By default only the swap that does not hold here is left out."""
    text = TRAP.replace("(g + h)", "(g + h + self.silu(self.a(x)))").replace("(7, 6)", "(7, 2, 6)")
    text = text.replace("        self.act", "        self.silu = nn.SiLU()\n        self.act")
    file = tmp_path / "net.py"
    file.write_text(text)
    result = fix("net.py")
    assert file.read_text() == text.replace("nn.SiLU()", "SigmoidSiLU()").replace(
        "from torch import nn\n",
        "from torch import nn\nfrom graphcheck.layers import SigmoidSiLU\n",
    )
    assert [(d.module, d.swap) for d in result.applied] == [("silu", "silu-as-sigmoid")]
    (left,) = [d for d in result.skipped if d.module == "act"]
    assert left.reason.startswith("the swaps should keep the function, but the loss on")


def test_another_name_in_the_file_is_not_taken(fix: Fix, tmp_path: Path) -> None:
    text = SILU.replace("class Net", "def SigmoidSiLU():\n    return None\n\n\nclass Net")
    (tmp_path / "net.py").write_text(text)
    result = fix("net.py")
    # The line cannot be edited, so what holds the module is wrapped.
    assert [d.form for d in result.applied] == ["call"]
    assert 'make_trainable(nn.SiLU(), swaps=["silu-as-sigmoid"]).module' in (
        (tmp_path / "net.py").read_text()
    )


def test_a_line_that_makes_a_module_that_does_not_fit(fix: Fix, tmp_path: Path) -> None:
    text = SILU.replace("nn.SiLU()", "pool(2)").replace("nn.Linear(8, 3)", "pool(3)")
    text = text.replace("class Net", "def pool(s):\n    return nn.MaxPool1d(2, s)\n\n\nclass Net")
    text = text.replace(
        "self.act = pool(2)",
        "self.act = nn.ModuleList(nn.MaxPool1d(2, s) for s in (2, 1))",
    )
    text = text.replace("self.b = pool(3)", "self.b = nn.Identity()")
    text = text.replace("self.act(self.a(x))", "self.act[1](self.act[0](self.a(x)))")
    (tmp_path / "net.py").write_text(text)
    result = fix("net.py", swaps=("max-pool-as-amax",))
    assert result.files == ()
    assert {d.module: d.reason for d in result.skipped} == {
        "act.0": "the same line makes act.1, and max-pool-as-amax: AmaxPool1d needs stride = "
        "kernel_size, not 1",
        "act.1": "max-pool-as-amax: AmaxPool1d needs stride = kernel_size, not 1",
    }


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_dirty_file_is_refused(fix: Fix, tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=n", "-c", "user.email=e@x.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    file = tmp_path / "net.py"
    file.write_text(SILU)
    git("init")
    with pytest.raises(UsageError) as caught:
        fix("net.py")
    assert caught.value.message == "net.py has changes that are not committed."
    assert caught.value.hint == (
        "Commit or stash them first, look at --diff, or give --allow-dirty."
    )
    assert file.read_text() == SILU
    git("add", "net.py")
    git("commit", "-m", "x")
    assert fix("net.py").files
    # Nothing to do is no reason to refuse.
    assert fix("net.py").files == ()
    file.write_text(SILU + "\n")
    assert fix("net.py", allow_dirty=True).files


@pytest.mark.parametrize(
    ("target", "swaps", "message", "hint"),
    [
        (
            "torchvision:resnet18",
            (),
            "torchvision:resnet18 is no file of yours: there is nothing to edit.",
            "Write a file with get_model() that returns the model, and get_example_inputs().",
        ),
        (
            "net.pt2",
            (),
            "net.pt2 is not source code, so it cannot be edited.",
            "Name the Python file that makes the model.",
        ),
        (
            "net.py",
            ("silu-as-sigmoid=1",),
            "Swap silu-as-sigmoid takes no argument, but got '1'.",
            "Give its name alone: --swap silu-as-sigmoid.",
        ),
    ],
)
def test_refused(fix: Fix, target: str, swaps: tuple[str, ...], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        fix(target, swaps=swaps)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_model_that_cannot_be_checked(fix: Fix, tmp_path: Path) -> None:
    text = SILU.replace(
        "        return self.b",
        "        if x.sum() > 0:\n            x = -x\n        return self.b",
    )
    (tmp_path / "net.py").write_text(text)
    result = fix("net.py")
    assert result.files == ()
    assert result.left is not None
    assert result.left.failed
    assert words(result).startswith("GC0")
    assert words(result).endswith("left: Could not check net.py: 1 reason above.\n")
    assert (tmp_path / "net.py").read_text() == text
