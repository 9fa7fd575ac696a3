"""`--with-inference` and `--external-weights`: shared state, weights beside, proven by a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from graphcheck.errors import GraphcheckError, UsageError
from graphcheck.export.inference import METHOD, Prediction, inference_facts, prove_inference
from graphcheck.export.run import export_workload
from graphcheck.export.types import ExportOptions, InputFact
from graphcheck.graph.capture import trace
from graphcheck.graph.pte import read_pte
from graphcheck.rewrite.buffers import initial_state_passes
from graphcheck.runtime.devices.host import train
from graphcheck.runtime.lower import lower
from graphcheck.runtime.placement import Placement
from graphcheck.runtime.types import TrainRequest
from graphcheck.validate.batches import array_input, device_batches
from graphcheck.workload.load import from_module


class Net(nn.Module):
    """Batch norm, whose weight the rewrite views, dropout, and a layer that does not train."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5)
        self.drop = nn.Dropout(0.3)
        self.b = nn.Linear(5, 3)
        self.b.bias.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.drop(torch.tanh(self.norm(self.a(x)))))


class OwnLoss(Net):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(super().forward(x), y)


class Predicts(OwnLoss):
    def predict(self, x: torch.Tensor) -> torch.Tensor:
        return Net.forward(self, x).softmax(-1)


class AsksForMore(OwnLoss):
    def predict(self, x: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
        return Net.forward(self, x) / temperature


def data() -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    return torch.randn(8, 6, generator=random), torch.randn(8, 3, generator=random)


def workload(model: type[nn.Module] = Net):
    torch.manual_seed(0)
    x, y = data()
    if model is Net:
        return from_module(Net(), (x,), loss="mse", targets=y)
    return from_module(model(), (x, y))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    output = tmp_path_factory.mktemp("placed") / "net.pte"
    options = ExportOptions(
        "net",
        steps=3,
        output=str(output),
        deterministic_dropout=True,
        external_weights=True,
        with_inference=True,
    )
    return output, export_workload(workload(), options)


def test_predictions_follow_the_training_in_the_runtime(exported) -> None:
    _, result = exported
    assert result.written, result.failure
    assert result.card.verdict == "match"
    inference = result.card.inference
    assert inference.inputs == (InputFact("x", "float32", (8, 6)),)
    assert inference.error_before < 1e-5
    assert inference.error_after < 1e-5
    assert inference.moved > 1e-2


def test_trained_state_is_at_one_place_in_both_methods(exported) -> None:
    output, _ = exported
    program = read_pte(output)
    places = {
        name: {
            (value.allocation.offset, value.shape): value.initialized
            for value in program.method(name).values
            if value.allocation and value.allocation.memory_id == 2
        }
        for name in ("forward", METHOD)
    }
    # Three parameters of two layers train, two of the norm, and its three buffers are written.
    assert set(places[METHOD]) == set(places["forward"])
    assert all(places["forward"].values())
    assert not any(places[METHOD].values())
    assert len(places["forward"]) == 8


def test_weights_are_in_the_file_beside(exported) -> None:
    output, result = exported
    card = result.card
    weights = output.with_suffix(".ptd")
    assert (card.weights, card.weights_bytes) == (weights.name, weights.stat().st_size)
    assert str(weights) in result.written
    named = {v.name for v in read_pte(output).method("forward").values if v.name}
    assert {"model.a.weight", "model.b.bias", "model.norm.weight"} <= named


def test_a_program_without_its_weights_is_refused(exported, tmp_path) -> None:
    output, _ = exported
    batches = device_batches(workload())
    drawn = ((*batches[0], array_input(torch.rand(8, 5))),)
    request = TrainRequest(output, drawn, steps=1)
    failure = train(request).failure
    assert failure is not None
    assert failure.stage == "method"
    empty = tmp_path / "other.ptd"
    empty.write_bytes(b"\0" * 64)
    failure = train(dataclasses.replace(request, weights=empty)).failure
    assert failure is not None
    assert failure.stage == "load"


def lowered(given, *, shares: bool):
    traced = trace(given)
    prediction = Prediction.of(given)
    plain = prediction.workload
    given.module.eval()
    method = torch.export.export(plain.module, plain.inputs, plain.kwargs, strict=False)
    given.module.train()
    trained = {name for name, p in given.module.named_parameters() if p.requires_grad}
    return prediction, lower(
        given,
        traced=traced,
        passes=initial_state_passes(traced.joint),
        placement=Placement({METHOD: method}, frozenset(trained if shares else ())),
    )


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.a(x))


@pytest.mark.parametrize("shares", [True, False])
def test_a_method_with_weights_of_its_own_is_found_out(shares, tmp_path) -> None:
    torch.manual_seed(0)
    x, y = data()
    given = from_module(Plain(), (x,), loss="mse", targets=y)
    prediction, program = lowered(given, shares=shares)
    path, _ = program.write(Path(tmp_path))
    if not shares:
        # Nothing is planned for it to share; it brings its own copy.
        assert read_pte(path).method(METHOD).buffer_sizes != ()
    options = ExportOptions("net", learning_rate=0.5)
    rewritten = type("R", (), {"graph": type("G", (), {"inputs": ()}), "records": ()})
    facts = inference_facts(program, rewritten)

    def prove():
        return prove_inference(facts, prediction, given, path, None, options)

    if shares:
        assert prove().error_after < 1e-5
        return
    with pytest.raises(GraphcheckError, match=r"method is off by .* after 2 training steps"):
        prove()


def test_a_model_that_only_gives_its_loss_needs_a_predict_method() -> None:
    with pytest.raises(UsageError) as refused:
        Prediction.of(workload(OwnLoss))
    assert refused.value.message == (
        "--with-inference: forward of OwnLoss computes the loss itself, so there is no "
        "prediction to export"
    )
    assert refused.value.hint.startswith("give the model a method predict() that takes some of")


def test_predict_takes_arguments_of_forward_by_name() -> None:
    given = workload(Predicts)
    prediction = Prediction.of(given)
    assert list(prediction.workload.kwargs) == ["x"]
    (output,) = prediction.run(given.module)
    assert output.shape == (8, 3)
    assert output.sum(-1) == pytest.approx(1.0)
    assert given.module.training
    assert given.module.norm.training


def test_an_argument_that_forward_lacks_is_told() -> None:
    with pytest.raises(UsageError) as refused:
        Prediction.of(workload(AsksForMore))
    assert refused.value.message == (
        "--with-inference: predict() of AsksForMore takes 'temperature', which forward does not "
        "take"
    )
