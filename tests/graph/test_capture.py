"""The joint graph as facts: provenance, reach, parameters and buffers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from graphcheck.graph.types import JointGraph
from graphcheck.workload.types import Workload

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

MODELS = Path(__file__).parents[1] / "models"


def load_model(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"case_{name}", MODELS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def capture_case(name: str) -> JointGraph:
    from graphcheck.graph.capture import capture

    module = load_model(name)
    return capture(Workload(module.get_model(), module.get_example_inputs(), root_type="Model"))


def calls(graph: JointGraph, op: str) -> list[Any]:
    return [call for call in graph.calls if call.op == op]


def line_of(name: str, text: str) -> int:
    lines = (MODELS / f"{name}.py").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def test_backward_ops_carry_module_type_and_the_users_line() -> None:
    graph = capture_case("seed_cnn")
    second, first = calls(graph, "aten.max_pool2d_with_indices_backward")
    assert (first.source.module, second.source.module) == ("pool1", "pool2")
    assert first.source.module_type == "MaxPool2d"
    assert Path(first.source.file).name == "seed_cnn.py"
    assert first.source.line == line_of("seed_cnn", "x = self.pool1(")
    assert first.source.code == "x = self.pool1(torch.relu(self.conv1(x)))"
    assert first.backward
    assert not calls(graph, "aten.max_pool2d_with_indices")[0].backward


def test_every_op_has_a_source() -> None:
    for name in ("seed_cnn", "attention", "batch_norm", "tied_weights"):
        for call in capture_case(name).calls:
            assert call.source.module, f"{name}: {call.node} has no module"
            assert call.source.line, f"{name}: {call.node} has no line"
            assert Path(call.source.file).name == f"{name}.py"


def test_reach_names_the_parameters_behind_an_op() -> None:
    graph = capture_case("seed_cnn")
    second, first = calls(graph, "aten.max_pool2d_with_indices_backward")
    assert first.gradients == ("conv1.weight", "conv1.bias")
    assert second.gradients == ("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias")
    assert not first.reaches_loss
    forward = calls(graph, "aten.max_pool2d_with_indices")[0]
    assert forward.reaches_loss
    assert "fc2.weight" in forward.gradients


def test_an_op_behind_a_frozen_trunk_reaches_no_gradient() -> None:
    from graphcheck.graph.capture import capture

    class Trunk(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)
            self.head = nn.Linear(2, 1)
            self.conv.requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return self.head(self.conv(x).exp().mean((2, 3))).sum() + self.conv(x).sin().sum()

    graph = capture(Workload(Trunk(), (torch.randn(2, 1, 5, 5),)))
    (sine,) = calls(graph, "aten.sin")
    assert sine.gradients == ()
    assert sine.reaches_loss
    (exponential,) = calls(graph, "aten.exp")
    assert exponential.gradients == ("head.weight",)


def test_root_code_is_called_forward() -> None:
    (pad,) = [
        call for call in calls(capture_case("pad_between"), "aten.constant_pad_nd") if call.backward
    ]
    assert pad.source.module == "forward"
    assert pad.source.module_type == "Model"
    assert pad.arguments["pad"] == [-1, -2, 0, -1]


def test_parameters_without_gradient_are_named_and_the_trace_goes_on() -> None:
    graph = capture_case("unused_parameter")
    missing = [p.name for p in graph.parameters if p.trainable and not p.has_gradient]
    assert missing == ["spare.weight", "spare.bias"]
    assert not calls(graph, "aten.zeros_like")
    assert not any("spare" in name for call in graph.calls for name in call.gradients)


def test_tied_weights_take_strict_export() -> None:
    graph = capture_case("tied_weights")
    assert graph.strict
    assert [(p.name, p.aliases) for p in graph.parameters] == [("embed.weight", ("out.weight",))]
    assert graph.parameters[0].has_gradient


def test_mutated_buffers_and_their_initial_state() -> None:
    graph = capture_case("batch_norm")
    assert [(b.name, b.mutated, b.initial_nonzero) for b in graph.buffers] == [
        ("norm.running_mean", True, False),
        ("norm.running_var", True, True),
        ("norm.num_batches_tracked", True, False),
    ]
    (norm,) = calls(graph, "aten._native_batch_norm_legit_functional")
    assert norm.buffers == ("norm.running_mean", "norm.running_var")


def test_the_prefix_of_the_loss_wrapper_is_cut() -> None:
    from graphcheck.graph.capture import capture

    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Sequential(nn.Conv1d(2, 3, 3), nn.Flatten(), nn.Linear(9, 2))

        def forward(self, x: Any) -> Any:
            return self.model(x).square().mean()

    graph = capture(
        Workload(WithLoss(), (torch.randn(2, 2, 5),), prefix="model.", root_type="Sequential")
    )
    (backward,) = calls(graph, "aten.convolution_backward")
    assert backward.source.module == "0"
    assert backward.gradients == ("0.weight", "0.bias")
    assert {p.name for p in graph.parameters} == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_defaults_of_the_schema_are_filled_in() -> None:
    graph = capture_case("seed_cnn")
    pool = calls(graph, "aten.max_pool2d_with_indices")[0]
    assert pool.arguments["kernel_size"] == [2, 2]
    assert pool.arguments["ceil_mode"] is False
    assert pool.arguments["self"].shape == (32, 8, 32, 32)


def test_layouts_are_those_of_the_lowered_program() -> None:
    from graphcheck.graph.capture import capture

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(2, 3, 3)

        def forward(self, x: Any) -> Any:
            return self.conv(x).permute(0, 2, 3, 1).exp().mean()

    plain = capture(Workload(Model(), (torch.randn(2, 2, 5, 6),)))
    (exponential,) = calls(plain, "aten.exp")
    # A permute is lowered to a copy: what follows it is row-major.
    assert exponential.arguments["self"].dim_order == (0, 1, 2, 3)

    x = torch.randn(2, 2, 5, 6).to(memory_format=torch.channels_last)
    last = capture(Workload(Model(), (x,)))
    (convolution,) = calls(last, "aten.convolution")
    assert convolution.arguments["input"].dim_order == (0, 2, 3, 1)
    assert convolution.outputs[0].dim_order == (0, 2, 3, 1)
    (exponential,) = calls(last, "aten.exp")
    assert exponential.arguments["self"].dim_order == (0, 1, 2, 3)


class Helper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self._inner(x)

    def _inner(self, x: Any) -> Any:
        return self.fc(x).exp().mean()  # the line that counts


@pytest.mark.parametrize("strict", [False, True])
def test_a_helper_function_is_where_its_ops_are(strict: bool) -> None:
    from graphcheck.graph.capture import describe
    from graphcheck.graph.trace import export, trace_joint

    workload = Workload(Helper(), (torch.randn(2, 3),))
    graph = describe(trace_joint(export(workload, strict=strict), strict=strict), workload)
    (exponential,) = [call for call in calls(graph, "aten.exp") if not call.backward]
    assert exponential.source.code.startswith("return self.fc(x).exp().mean()")
    lines = Path(__file__).read_text().splitlines()
    assert lines[exponential.source.line - 1].endswith("# the line that counts")


def test_the_loss_on_the_example_data_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphcheck.graph import example_facts
    from graphcheck.graph.capture import capture

    model, x = Helper(), torch.ones(2, 3)
    graph = capture(Workload(model, (x,)))
    assert graph.loss is not None
    facts = graph.example_facts[graph.loss.node]
    assert facts["loss"] == pytest.approx(float(model(x)))
    assert graph.not_checked == ()
    with torch.no_grad():
        model.fc.weight.fill_(100)
    graph = capture(Workload(model, (x,)))
    (exponential,) = [call for call in calls(graph, "aten.exp") if not call.backward]
    assert graph.loss is not None
    assert graph.example_facts[graph.loss.node] == {
        "loss": float("inf"),
        "first": exponential.node,
    }
    monkeypatch.setattr(example_facts, "measure", lambda *arguments: {})
    assert capture(Workload(model, (x,))).not_checked == (
        ("the loss on the example data", "the graph could not be run on them in eager PyTorch"),
    )
