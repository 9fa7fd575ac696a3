"""The public functions: what they are called with, and what they say of what cannot be meant."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn

import graphcheck
from graphcheck.arguments import checked_options
from graphcheck.errors import ModelError, UsageError
from graphcheck.export.types import ExportOptions
from graphcheck.options import CheckOptions, ValidateOptions

X = torch.ones(2, 3)
NAMES = "Pass a string or a list of strings, for instance"
PATH = "Pass a string or a pathlib.Path, for instance"


def _net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.SiLU())


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (
            lambda: graphcheck.make_trainable(_net(), 3),
            "swaps is of type int, not names.",
            f"{NAMES} swaps=['batch-norm-as-group-norm'].",
        ),
        (
            lambda: graphcheck.make_trainable(_net(), [3]),
            "swaps holds 3, which is not a name.",
            f"{NAMES} swaps=['batch-norm-as-group-norm'].",
        ),
        (
            lambda: graphcheck.make_trainable(_net(), only=3),
            "only is of type int, not names.",
            f"{NAMES} only=['layer4.*'].",
        ),
        (
            lambda: graphcheck.make_trainable(_net(), "batch-norm-as-group-norm", groups="2"),
            "groups is of type str, not a whole number.",
            "Pass the number of groups, for instance swaps=['batch-norm-as-group-norm'], groups=8.",
        ),
        (
            lambda: graphcheck.check(_net(), X, options={"target": 1}),
            "options of check is of type dict, not CheckOptions.",
            "Pass graphcheck.options.CheckOptions(target=...), or leave options out.",
        ),
        (
            lambda: graphcheck.check(_net(), X, options=CheckOptions("Net", opset=3)),
            "options.opset of check cannot be used: expected str | None, got int.",
            "The values are described in graphcheck.options.CheckOptions.",
        ),
        (
            lambda: graphcheck.check(_net(), X, options=CheckOptions("Net", select="GC1")),
            "options.select of check cannot be used: expected list, got str.",
            "The values are described in graphcheck.options.CheckOptions.",
        ),
        (
            lambda: graphcheck.check(_net(), X, loss=nn.MSELoss),
            "loss is the class MSELoss, which makes a loss and is none.",
            "Pass an instance: loss=MSELoss().",
        ),
        (
            lambda: graphcheck.validate(_net(), X, options=CheckOptions("Net")),
            "options of validate is of type CheckOptions, not ValidateOptions.",
            "Pass graphcheck.options.ValidateOptions(target=...), or leave options out.",
        ),
        (
            lambda: graphcheck.validate(_net(), X, options=ValidateOptions("Net", steps="3")),
            "options.steps of validate cannot be used: expected int, got str.",
            "The values are described in graphcheck.options.ValidateOptions.",
        ),
        (
            lambda: graphcheck.export(_net(), X, 3),
            "output is of type int, not a path.",
            f"{PATH} 'net.pte'.",
        ),
        (
            lambda: graphcheck.export(nn.Linear, X, "net.pte"),
            "The model is of type type, not a torch.nn.Module.",
            "Pass the module itself.",
        ),
        (
            lambda: graphcheck.export(_net(), X, "net.pte", options=CheckOptions("Net")),
            "options of export is of type CheckOptions, not ExportOptions.",
            "Pass graphcheck.export.types.ExportOptions(target=...), or leave options out.",
        ),
        (
            lambda: graphcheck.fix(3),
            "target is of type int, not a path.",
            f"{PATH} 'model.py'.",
        ),
        (
            lambda: graphcheck.fix("net.py", swaps=3),
            "swaps is of type int, not names.",
            f"{NAMES} swaps=['batch-norm-as-group-norm'].",
        ),
        (
            lambda: graphcheck.fix("net.py", unsafe="yes"),
            "options.unsafe of fix cannot be used: expected bool, got str.",
            "The values are described in graphcheck.fixing.types.FixOptions.",
        ),
    ],
)
def test_an_argument_of_a_wrong_type_is_told(
    call: Callable[[], Any], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_options_take_lists_paths_and_numbers_of_numpy() -> None:
    given = ExportOptions(
        "Net",
        steps=numpy.int64(3),
        learning_rate=numpy.float32(0.5),
        swaps=["silu-as-sigmoid"],
        kernel_libraries=(Path("a.so"),),
    )
    assert checked_options(given, CheckOptions, "check") == ExportOptions(
        "Net",
        steps=3,
        learning_rate=0.5,
        swaps=("silu-as-sigmoid",),
        kernel_libraries=("a.so",),
    )


def test_a_single_name_of_a_swap_is_taken_by_fix() -> None:
    with pytest.raises(UsageError, match=r"^There is no swap 'nope'\.$"):
        graphcheck.fix("net.py", swaps="nope")


class Dict(nn.Module):
    """Takes one dict."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.fc(batch["x"])


@pytest.mark.parametrize("loss", ["mse", nn.MSELoss()])
def test_a_dict_with_names_that_forward_has_not(loss: Any) -> None:
    with pytest.raises(ModelError) as caught:
        graphcheck.check(nn.Linear(3, 4), {"z": X}, loss=loss, targets=torch.ones(2, 4))
    assert caught.value.code == "GC002"
    assert caught.value.message == (
        "Linear.forward(input: torch.Tensor) -> torch.Tensor has no argument 'z', so that the dict "
        "itself was given as its one positional argument input, and forward raised TypeError."
    )
    assert caught.value.hint == (
        "Name the arguments of forward in the dict ('input'), or pass a tensor or a tuple of "
        "tensors."
    )
    assert not graphcheck.check(Dict(), {"x": X}, loss=loss, targets=torch.ones(2, 4)).failed


def test_an_input_that_is_no_tensor() -> None:
    with pytest.raises(ModelError) as caught:
        graphcheck.check(nn.Linear(3, 4), X.numpy(), loss="mse")
    assert (caught.value.code, caught.value.message, caught.value.hint) == (
        "GC009",
        "Input `input` of forward is of type ndarray, not a tensor.",
        "Pass torch.from_numpy(input).",
    )
    for inputs, targets, name in (
        (X.numpy(), torch.ones(2, 4), "input"),
        (X, torch.ones(2, 4).numpy(), "target"),
    ):
        report = graphcheck.check(nn.Linear(3, 4), inputs, loss=nn.MSELoss(), targets=targets)
        # What forward raises on it is not told beside it.
        assert [(finding.code, finding.message) for finding in report.findings] == [
            ("GC009", f"Input `{name}` of forward is of type ndarray, not a tensor.")
        ]


def test_the_public_names_are_listed_and_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, graphcheck\n"
        "names = dir(graphcheck)\n"
        "assert [n for n in names if n[0] != '_'] == sorted(graphcheck.__all__), names\n"
        "assert '__version__' in names and '__name__' in names\n"
        "assert 'torch' not in sys.modules\n"
        "import graphcheck.api\n"
        "assert [n for n in dir(graphcheck) if n[0] != '_'] == sorted(graphcheck.__all__)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Keeps(nn.Module):
    """Keeps a tensor as a plain attribute, which torch warns of."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.seen: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = self.fc(x).detach()
        warnings.warn("of the user's own", UserWarning, stacklevel=1)
        return self.fc(x)


def test_the_warning_of_torch_for_assigned_tensors_is_not_shown() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert not graphcheck.check(Keeps(), X, loss="mse").failed
    told = [str(warning.message) for warning in caught]
    assert not any("assigned during export" in text for text in told)
    assert "of the user's own" in told
