"""Which nodes are rewritten: what a finding asks for, what keeps float64, what a library runs."""

from __future__ import annotations

import pytest
import torch

from graphcheck.graph.trace import kept_whole, trace_joint
from graphcheck.graph.types import Source
from graphcheck.rewrite.batch_norm_ops import define
from graphcheck.rewrite.plan import Choice, Plan
from graphcheck.rules.types import Finding, Severity

KERNELS = frozenset(
    {"graphcheck::batch_norm_training.out", "graphcheck::batch_norm_training_backward.out"}
)


def finding(code, severity):
    return Finding(code, severity, "aten.sum", "says so", Source(), nodes=("sum_1",))


@pytest.mark.parametrize(
    ("code", "severity", "planned"),
    [
        ("GC301", Severity.ERROR, True),
        ("GC402", Severity.WARNING, True),
        ("GC403", Severity.WARNING, True),
        ("GC403", Severity.NOTE, False),
        ("GC401", Severity.WARNING, False),
        ("GC506", Severity.WARNING, False),
    ],
)
def test_what_a_finding_asks_for(code, severity, planned) -> None:
    assert bool(Plan.of([finding(code, severity)], Choice()).reasons) is planned


class Net(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3, dtype=dtype)
        self.norm = torch.nn.BatchNorm1d(3, dtype=dtype)

    def forward(self, x):
        return (self.norm(self.linear(x)) * 0.1).square().sum(0).sum()


def joint(dtype, whole=frozenset()):
    x = torch.randn(4, 3, dtype=dtype)
    with kept_whole(whole):
        return trace_joint(torch.export.export(Net(dtype), (x,)), strict=False).joint


def applied(program, **plan):
    _, done = Plan(**plan).rewrite_joint(program)
    return {item.rewrite.name for item in done if item.applied}


def test_float64_is_kept_where_the_loss_is_float64():
    wide = joint(torch.float64)
    assert {"mul_number_float64", "sum_over_two_dims"} <= applied(wide, wide=True)
    assert applied(wide, wide=False) == set()
    assert applied(joint(torch.float32), wide=True) == set()
    never = Choice(never=("sum_over_two_dims",))
    assert "sum_over_two_dims" not in applied(wide, wide=True, choice=never)


def test_kernels_of_a_library_are_used_where_it_is_preferred():
    with_library = Choice(keep_patched=True, kernels=KERNELS)
    assert with_library.whole == {
        "aten._native_batch_norm_legit_functional.default",
        "aten.native_batch_norm_backward.default",
    }
    program = joint(torch.float32, with_library.whole)
    reasons = {
        node.name: finding("GC103", Severity.ERROR)
        for node in program.graph.nodes
        if "batch_norm" in str(node.target)
    }
    assert len(reasons) == 2
    ours = {"batch_norm_training_kernel", "batch_norm_backward_kernel"}
    assert applied(program, reasons=reasons, choice=with_library) == ours
    for other in (Choice(keep_patched=True), Choice(kernels=KERNELS)):
        assert other.whole == set()
        portable = {"batch_norm_training", "batch_norm_backward"}
        assert applied(program, reasons=reasons, choice=other) == portable


def test_without_a_library_the_backward_comes_apart_as_ever():
    names = {str(node.target) for node in joint(torch.float32).graph.nodes}
    assert "aten.native_batch_norm_backward.default" not in names


@pytest.mark.parametrize("affine", [True, False])
def test_the_ops_are_what_eager_computes(affine):
    define()
    x, grad = torch.randn(4, 3, 5), torch.randn(4, 3, 5)
    pair = (torch.randn(3), torch.randn(3)) if affine else (None, None)
    running = (torch.randn(3), torch.rand(3))
    got = torch.ops.graphcheck.batch_norm_training(x, *pair, *running, 0.1, 1e-5)
    eager = torch.ops.aten._native_batch_norm_legit_functional(x, *pair, *running, True, 0.1, 1e-5)
    torch.testing.assert_close(got, eager)
    outs = {f"out{index}": torch.empty(0) for index in range(5)}
    into = torch.ops.graphcheck.batch_norm_training.out(x, *pair, *running, 0.1, 1e-5, **outs)
    torch.testing.assert_close(tuple(into), eager)
    flow = torch.ops.graphcheck.batch_norm_training_backward(grad, x, pair[0], got[1], got[2])
    eager = torch.ops.aten.native_batch_norm_backward(
        grad, x, pair[0], None, None, got[1], got[2], True, 1e-5, [True, True, True]
    )
    torch.testing.assert_close(flow, eager)
