"""What is measured on the example data: the worst group of each normalisation."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from graphcheck.graph.example_facts import measure

aten = torch.ops.aten


def module(build: Any) -> torch.fx.GraphModule:
    """A graph of aten ops; `build(graph, *placeholders)` adds the nodes and returns the output."""
    graph = torch.fx.Graph()
    graph.output(build(graph))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def norm_of(name: str) -> torch.fx.GraphModule:
    def build(graph: torch.fx.Graph) -> Any:
        x = graph.placeholder("x")
        if name == "layer":
            node = graph.call_function(
                aten.native_layer_norm.default, (x, [8], None, None, 1e-5), name="norm"
            )
        elif name == "group":
            node = graph.call_function(
                aten.native_group_norm.default, (x, None, None, 2, 4, 4, 2, 1e-5), name="norm"
            )
        else:
            node = graph.call_function(
                aten._native_batch_norm_legit.no_stats,
                (x, None, None, True, 0.1, 1e-5),
                name="norm",
            )
        return (node,)

    return module(build)


@pytest.mark.parametrize(
    ("name", "shape", "worst", "elements"),
    [
        ("layer", (3, 8), (1, slice(None)), 8),
        ("group", (2, 4, 2, 2), (1, slice(2, 4)), 8),
        ("batch", (2, 4, 2, 2), (slice(None), 2), 8),
    ],
)
def test_the_worst_group_is_described(
    name: str, shape: tuple[int, ...], worst: Any, elements: int
) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    x[worst] = 50 + 0.1 * x[worst]
    facts = measure(norm_of(name), [x])["norm"]
    group = x[worst].double()
    assert facts["elements"] == elements
    assert facts["mean"] == pytest.approx(float(group.mean()))
    assert facts["std"] == pytest.approx(float(group.std(correction=0)))
    assert facts["ratio"] == pytest.approx(
        float(group.mean() / (group.var(correction=0) + 1e-5).sqrt())
    )


def test_a_constant_group_is_bounded_by_eps() -> None:
    facts = measure(norm_of("layer"), [torch.ones(2, 8)])["norm"]
    assert facts["ratio"] == pytest.approx(1e-5**-0.5)


def test_nan_leaves_a_finite_ratio() -> None:
    x = torch.full((2, 8), float("nan"))
    x[1] = torch.arange(8.0)
    assert measure(norm_of("layer"), [x])["norm"]["mean"] == pytest.approx(3.5)


def test_only_what_leads_to_a_norm_is_run() -> None:
    def build(graph: torch.fx.Graph) -> Any:
        x, y = graph.placeholder("x"), graph.placeholder("y")
        # Shapes that do not fit: running it would raise.
        graph.call_function(aten.add.Tensor, (x, y), name="broken")
        double = graph.call_function(aten.mul.Tensor, (x, 2.0))
        norm = graph.call_function(
            aten.native_layer_norm.default, (double, [8], None, None, 1e-5), name="norm"
        )
        return (norm,)

    facts = measure(module(build), [torch.full((2, 8), 3.0), torch.ones(5)])
    assert facts["norm"]["mean"] == 6


def test_an_op_that_cannot_run_ends_the_measuring() -> None:
    def build(graph: torch.fx.Graph) -> Any:
        x, y = graph.placeholder("x"), graph.placeholder("y")
        first = graph.call_function(
            aten.native_layer_norm.default, (x, [8], None, None, 1e-5), name="first"
        )
        broken = graph.call_function(aten.add.Tensor, (x, y))
        second = graph.call_function(
            aten.native_layer_norm.default, (broken, [8], None, None, 1e-5), name="second"
        )
        return (first, second)

    assert set(measure(module(build), [torch.ones(2, 8), torch.ones(5)])) == {"first"}


def test_a_graph_without_such_norms_is_not_run() -> None:
    def build(graph: torch.fx.Graph) -> Any:
        x = graph.placeholder("x")
        return (graph.call_function(aten.native_layer_norm.default, (x, [256], None, None, 1e-5)),)

    # Not even its arguments are looked at.
    assert measure(module(build), []) == {}


def test_measuring_leaves_random_numbers_as_they_were() -> None:
    def build(graph: torch.fx.Graph) -> Any:
        x = graph.placeholder("x")
        noise = graph.call_function(aten.rand_like.default, (x,))
        return (
            graph.call_function(
                aten.native_layer_norm.default, (noise, [8], None, None, 1e-5), name="norm"
            ),
        )

    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    assert "norm" in measure(module(build), [torch.ones(2, 8)])
    assert torch.equal(torch.rand(1), expected)


def loss_graph(*, norm: bool = False) -> torch.fx.GraphModule:
    """mean(log(norm(x))), and what only a gradient needs behind it."""

    def build(graph: torch.fx.Graph) -> Any:
        x = graph.placeholder("x")
        if norm:
            first = (x, [8], None, None, 1e-5)
            x = graph.call_function(aten.native_layer_norm.default, first, name="norm")
            x = graph.call_function(operator.getitem, (x, 0))
        log = graph.call_function(aten.log.default, (x,), name="log")
        loss = graph.call_function(aten.mean.default, (log,), name="loss")
        graph.call_function(aten.mm.default, (loss, loss), name="broken")
        return (loss,)

    return module(build)


def test_the_loss_is_measured_with_or_without_a_norm() -> None:
    assert measure(loss_graph(), [torch.ones(2, 8)], "loss") == {"loss": {"loss": 0.0}}
    x = torch.arange(16.0).reshape(2, 8)
    assert set(measure(loss_graph(norm=True), [x], "loss")) == {"norm", "loss"}


@pytest.mark.parametrize(
    ("value", "loss", "first"),
    [(-1.0, "nan", "log"), (0.0, "-inf", "log"), (float("nan"), "nan", "x")],
)
def test_what_makes_the_loss_not_finite_is_found(value: float, loss: str, first: str) -> None:
    facts = measure(loss_graph(), [torch.full((2, 8), value)], "loss")
    assert (str(facts["loss"]["loss"]), facts["loss"]["first"]) == (loss, first)


def test_a_loss_that_cannot_be_run_has_no_facts() -> None:
    assert measure(loss_graph(), [torch.ones(2, 8, dtype=torch.bool)], "broken") == {}
