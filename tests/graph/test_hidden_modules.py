"""Modules and backward functions that a trace would not see, and models that hide none."""

from __future__ import annotations

from pathlib import Path

import broken_models
import pytest
import torch
from diagnosing import HERE, X, failure, place, workload

from graphcheck.errors import ModelError
from graphcheck.graph.capture import trace
from graphcheck.graph.custom_functions import lost_backward
from graphcheck.graph.diagnose import precheck
from graphcheck.workload.load import from_module
from graphcheck.workload.types import Workload


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)


def test_hidden_modules():
    (problem,) = precheck(workload("HiddenList"))
    line = place("HiddenList", "self.blocks = [nn.Linear(8, 8), nn.Linear(8, 8)]").partition(" ")[0]
    assert problem.code == "GC010"
    assert problem.message == (
        f"`blocks` is a plain list ({line}), so its parameters are not registered and will not be "
        "trained: blocks[0].weight, blocks[0].bias, blocks[1].weight, blocks[1].bias (144 values)."
    )
    assert problem.hint == "Use nn.ModuleList (for bare parameters nn.ParameterList)."
    assert (problem.fatal, problem.module) == (False, "blocks")
    assert (Path(problem.file).name, problem.line) == ("broken_models.py", int(line.split(":")[1]))


def test_hidden_modules_in_nested_containers():
    found = {problem.module: problem for problem in precheck(workload("HiddenDict"))}
    assert sorted(found) == ["heads", "inner.0.blocks"]
    assert "trained: heads['a'][0].weight, heads['a'][0].bias (9 values)." in found["heads"].message
    assert found["heads"].hint == "Use nn.ModuleDict (for bare parameters nn.ParameterDict)."


def test_hidden_modules_are_named_without_the_wrapper():
    module = broken_models.HiddenList()
    (problem,) = precheck(from_module(module, X, loss="mean"))
    assert problem.module == "blocks"


def test_a_model_of_hidden_modules_only():
    error = failure("OnlyHidden")
    assert error.message == "OnlyHidden has nothing to train: it has no parameters."
    assert [other.code for other in error.others] == ["GC010"]


@pytest.mark.parametrize("name", ["Healthy", "RegisteredList", "HonestFunction"])
def test_healthy_models_pass(name):
    subject = workload(name)
    assert precheck(subject) == []
    assert trace(subject).no_gradient == ()


def test_library_modules_hide_nothing():
    module = torch.nn.Sequential(
        torch.nn.LSTM(8, 8), torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(8, 8))
    )
    assert precheck(Workload(module, (X,), root_type="Sequential")) == []


def test_several_problems_are_told_together():
    error = failure("ManyFaults")
    assert [error.code, *(other.code for other in error.others)] == [
        "GC004",
        "GC008",
        "GC005",
        "GC010",
    ]
    assert place("ManyFaults", "self.fc.bias.zero_()") in error.others[0].message


def test_the_diagnosis_leaves_the_model_alone():
    subject = workload("ManyFaults")
    before = {name: value.clone() for name, value in subject.module.state_dict().items()}
    with pytest.raises(ModelError):
        trace(subject)
    after = subject.module.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_a_straight_through_estimator_loses_its_gradient():
    subject = workload("StraightThrough")
    (problem,) = precheck(subject)
    line = place("StraightThrough", "return Round.apply(self.fc(x)).sum()")
    assert (problem.code, problem.fatal) == ("GC013", False)
    assert problem.message == (
        f"The backward of the custom autograd.Function Round is lost in export ({line}): it is "
        "replaced by the derivative of its forward, and the gradient of fc.weight is off by 1 of "
        "its largest entry (2 parameters are affected)."
    )


def test_the_joint_graph_does_lose_it():
    """What GC013 says is what torch does: the gradients in the joint graph are zero."""
    from graphcheck.graph.arguments import joint_arguments

    subject = workload("StraightThrough")
    traced = trace(subject)
    outputs = traced.joint.graph_module(*joint_arguments(traced, subject))
    assert lost_backward(subject) is not None
    assert all(float(gradient.abs().max()) == 0 for gradient in outputs[1:])
