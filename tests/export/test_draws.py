"""`--deterministic-dropout`: draws as inputs, fed to both sides, compared exactly."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from graphcheck.export.draws import with_draws_as_inputs
from graphcheck.export.run import export_workload
from graphcheck.export.types import ExportOptions, RandomInput
from graphcheck.graph.capture import trace
from graphcheck.runtime.lower import lower
from graphcheck.validate.run import validate_workload
from graphcheck.workload.load import from_module


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 32)
        self.drop = nn.Dropout(0.5)
        self.b = nn.Linear(32, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.b(self.drop(torch.relu(self.a(x)))), y)


def arguments() -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    return {
        "x": torch.randn(16, 6, generator=random),
        "y": torch.randint(0, 3, (16,), generator=random),
    }


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    output = tmp_path_factory.mktemp("drawn") / "net.pte"
    options = ExportOptions("net", steps=4, output=str(output), deterministic_dropout=True)
    return output, export_workload(from_module(Net(), arguments()), options)


def test_every_gradient_is_exact_and_the_input_is_told(exported) -> None:
    _, result = exported
    assert result.written, result.failure
    card = result.card
    drawn = RandomInput("draw_0", "float32", (16, 32), "uniform", "drop", low=0, high=1)
    assert card.random_inputs == (drawn,)
    assert [fact.name for fact in card.inputs] == ["x", "y", "draw_0"]
    assert card.verdict == "match"
    assert max(card.worst_gradient_errors.values()) < 1e-5
    assert not any("GC506" in remark for remark in card.remarks)


def test_the_reference_trace_has_draws_of_its_own_for_each_step(exported) -> None:
    output, result = exported
    card = result.card
    assert card.reference_input_sets == len(card.reference) == 5
    assert len(set(card.reference_inputs[2::3])) == 5
    assert len(set(card.reference_inputs[0::3])) == 1
    size = output.with_suffix(".inputs.bin").stat().st_size
    assert size == 5 * (16 * 6 * 4 + 16 * 8 + 16 * 32 * 4)


def test_other_draws_than_those_of_the_program_do_not_agree() -> None:
    torch.manual_seed(0)
    workload = from_module(Net(), arguments())
    traced = trace(workload)
    drawn, traced, _ = with_draws_as_inputs(workload, traced, 2)

    class Deaf(type(drawn.module)):  # type: ignore[misc]
        def forward(self, *args, **kwargs):
            kwargs["draw_0"] = 1 - kwargs["draw_0"]
            return super().forward(*args, **kwargs)

    options = ExportOptions("net", steps=2)
    lowered = lower(drawn, traced=traced)
    assert validate_workload(drawn, options, lowered=lowered).verdict == "match"
    drawn.module.__class__ = Deaf
    assert validate_workload(drawn, options, lowered=lowered).verdict == "diverged"


def test_symbolic_sizes_follow_the_example_inputs() -> None:
    workload = from_module(Net(), (*arguments().values(),), dynamic_batch=True)
    drawn, _, facts = with_draws_as_inputs(workload, trace(workload), 2)
    assert [len(fact.shape) for fact in facts] == [2]
    assert isinstance(facts[0].shape[0], str)
    assert drawn.inputs[2].shape == (16, 32)
    assert drawn.module(*drawn.inputs).shape == ()


def test_the_users_module_stays_as_it_is() -> None:
    net = Net()
    workload = from_module(net, arguments())
    drawn, _, _ = with_draws_as_inputs(workload, trace(workload), 1)
    assert type(net) is Net
    assert dict(drawn.module.named_parameters()).keys() == dict(net.named_parameters()).keys()
    assert drawn.module.a.weight is net.a.weight


def test_a_model_that_draws_nothing_says_so(tmp_path) -> None:
    net = nn.Linear(4, 3)
    workload = from_module(net, (torch.randn(5, 4),), loss="mse", targets=torch.randn(5, 3))
    options = ExportOptions(
        "net", output=str(tmp_path / "x.pte"), prove=False, deterministic_dropout=True
    )
    result = export_workload(workload, options)
    assert result.card.remarks == (
        "--deterministic-dropout: the model draws no random number; nothing was changed",
    )
    assert dataclasses.asdict(result.card)["reference_input_sets"] == 1
