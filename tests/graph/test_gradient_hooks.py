"""Hooks on gradients (GC015): told where they change a gradient, silent where they only look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphcheck.graph.gradient_hooks import copied_with_hooks, lost_hooks
from graphcheck.graph.precheck import precheck
from graphcheck.workload.load import from_module

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    def __init__(self, hook: Callable[[Tensor], Any] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 8)
        self.last = nn.Linear(8, 1)
        self.hook = hook

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        if self.hook is not None:
            hidden.register_hook(self.hook)
        return self.last(hidden).pow(2).mean()


def _reversed(gradient: Tensor) -> Tensor:
    return -gradient


def _looked_at(gradient: Tensor) -> None:
    gradient.norm()


def _halved_in_place(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.mul_(0.5)


def _doubled(module: nn.Module, inputs: Any, outputs: Any) -> Any:
    return tuple(None if one is None else 2 * one for one in inputs)


def _with(kind: str) -> nn.Module:
    net = Net(_reversed if kind == "tensor" else None)
    if kind == "parameter":
        net.first.weight.register_hook(_reversed)
    if kind == "accumulated":
        net.first.weight.register_post_accumulate_grad_hook(_halved_in_place)
    if kind == "module":
        net.last.register_full_backward_hook(_doubled)
    return net


@pytest.mark.parametrize(
    ("kind", "told", "error", "parameters"),
    [
        ("parameter", "_reversed on parameter first.weight", 2.0, ("first.weight",)),
        ("accumulated", "_halved_in_place on parameter first.weight", 1.0, ("first.weight",)),
        ("module", "_doubled on module last", 0.5, ("first.weight", "first.bias")),
        ("tensor", "_reversed on a tensor of forward", 2.0, ("first.weight", "first.bias")),
    ],
)
def test_a_hook_that_changes_a_gradient_is_told(
    kind: str, told: str, error: float, parameters: tuple[str, ...]
) -> None:
    lost = lost_hooks(from_module(_with(kind), (X,)))
    assert lost is not None
    assert [f"{hook.function} on {hook.on}" for hook in lost.hooks] == [told]
    assert lost.wrong.error == pytest.approx(error)
    assert lost.wrong.parameters == parameters
    assert lost.hooks[0].file == __file__


def test_its_message_names_hook_place_and_gradient() -> None:
    (problem,) = precheck(from_module(_with("parameter"), (X,)))
    assert (problem.code, problem.fatal, problem.file) == ("GC015", False, __file__)
    assert problem.line == _reversed.__code__.co_firstlineno
    assert problem.message == (
        "Gradient hooks are lost in export (_reversed on parameter first.weight): the gradient of "
        "first.weight is off by 2 of its largest entry."
    )


def test_hooks_that_only_look_and_models_without_any_are_not_reported() -> None:
    looking = Net(_looked_at)
    looking.first.weight.register_hook(_looked_at)
    looking.last.register_full_backward_hook(lambda module, inputs, outputs: None)
    assert lost_hooks(from_module(looking, (X,))) is None
    assert lost_hooks(from_module(Net(), (X,))) is None


def test_eager_training_is_compared_with_the_hooks_of_parameters() -> None:
    module = _with("parameter")
    twin = copied_with_hooks(module)
    for one in (module, twin):
        one(X).backward()
    assert torch.equal(twin.first.weight.grad, module.first.weight.grad)
    assert twin.first.weight is not module.first.weight


def test_a_forward_that_sets_hooks_is_loaded_without_gradients() -> None:
    class Predicting(Net):
        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.tanh(self.first(x))
            hidden.register_hook(_reversed).remove()
            return self.last(hidden)

    workload = from_module(Predicting(), (X,), loss="mse", targets=torch.zeros(6, 1))
    assert workload.inputs
