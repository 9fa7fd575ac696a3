"""Models that return a dict: what is taken as the prediction, and which loss takes it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import graphcheck
from graphcheck.errors import ModelError
from graphcheck.workload.heads import heads, shown_output

X = torch.ones(2, 6)
CUT = "Output 'logits' is taken as the prediction; 1 more output is ignored."


class Net(nn.Module):
    """Predictions and a number that is no loss, for no parameter is in it."""

    def __init__(self, of: str = "input") -> None:
        super().__init__()
        self.out = nn.Linear(6, 3)
        self.of = of

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.out(x)
        return {"logits": logits, "aux": (logits if self.of == "logits" else x).sum()}


@pytest.mark.parametrize("loss", [None, "cross_entropy"])
def test_a_number_beside_the_prediction_is_left_out_of_the_loss(loss: str | None) -> None:
    report = graphcheck.check(Net(), X, loss=loss)
    assert not report.failed
    assert CUT in report.guesses
    guessed = "forward returns float32[2,3] and no loss was given; cross_entropy was used."
    assert (guessed in report.guesses) == (loss is None)


def test_a_number_that_could_be_the_loss_is_asked_for() -> None:
    (finding,) = graphcheck.check(Net("logits"), X).findings
    assert finding.code == "GC006"
    assert finding.message.startswith("The loss is output 1 (['aux']), but training differentiates")
    assert finding.evidence[0].endswith(
        "in a dict, put the loss first. If ['aux'] is no loss, name one with --loss."
    )
    report = graphcheck.check(Net("logits"), X, loss="cross_entropy")
    assert CUT in report.guesses


def test_a_loss_that_cannot_take_a_dict_is_told_with_the_keys() -> None:
    report = graphcheck.check(Net(), X, loss=nn.CrossEntropyLoss())
    (finding,) = report.findings
    assert (finding.code, finding.message) == (
        "GC014",
        "forward returns a dict with the keys logits, aux, which the loss cannot take: TypeError: "
        "cross_entropy_loss(): argument 'input' (position 1) must be Tensor, not dict.",
    )
    assert finding.evidence == (
        "Give a loss function of your own that takes the dict (`def loss(output, target)` with "
        "`output['logits']`) and the targets: get_loss() in the model file returns it, or pass it "
        "as loss=.",
    )

    def own(output: dict[str, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output["logits"], target)

    assert not graphcheck.check(Net(), X, loss=own, targets=torch.tensor([0, 1])).failed


def test_labels_that_do_not_fit_are_told_with_the_keys() -> None:
    with pytest.raises(ModelError) as caught:
        graphcheck.check(Net(), X, loss="cross_entropy", targets=torch.tensor([0, 9]))
    assert caught.value.hint == (
        "Give targets that fit the prediction: labels from 0 to the number of classes - 1. forward "
        "returns a dict with the keys logits, aux; for another part of it give a loss function of "
        "your own (get_loss() in the model file, or loss=)."
    )


def test_the_prediction_has_dims_and_an_auxiliary_one_as_many() -> None:
    scores, number = torch.ones(2, 3), torch.tensor(1.0)
    assert [name for name, _, _ in heads({"count": number, "scores": scores})] == ["scores"]
    assert [name for name, _, _ in heads({"logits": number, "scores": scores})] == ["scores"]
    assert [name for name, _, _ in heads({"out": scores, "aux": scores})] == ["out", "aux"]
    assert [name for name, _, _ in heads({"count": number})] == ["count"]
    assert shown_output({"logits": number}) == "a dict with the key logits"
    assert shown_output((scores, number)) == "a tuple"
