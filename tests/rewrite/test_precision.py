"""Ops that the kernels add up in too small a type: half precision, and sums over one dim."""

from __future__ import annotations

import pytest
import torch
from harness import Case, check, generator
from lowered import run_methods
from torch import nn

from graphcheck.graph.trace import trace_joint
from graphcheck.rewrite.apply import apply, qualified_name
from graphcheck.rewrite.interface import rewrites_for

aten = torch.ops.aten


def normal(seed, *shape):
    return torch.randn(*shape, generator=generator(seed))


class Half(nn.Module):
    """Ops on values rounded to a half type; results as float32."""

    def __init__(self, op, dtype):
        super().__init__()
        self.op = op
        self.dtype = dtype

    def forward(self, *values):
        values = [v.to(self.dtype) if v.is_floating_point() else v for v in values]
        results = self.op(*values)
        results = results if isinstance(results, (list, tuple)) else [results]
        return tuple(one.float() for one in results if one is not None)


def convolution_backward(grad, x, w):
    return aten.convolution_backward(
        grad, x, w, [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]
    )


MANY = torch.zeros(3000, dtype=torch.int64)
OPS = {
    "addmm": (
        lambda b, x, w: aten.addmm(b, x, w),
        normal(1, 5),
        normal(2, 3, 2048).abs(),
        normal(3, 2048, 5).abs(),
    ),
    "cumsum": (lambda x: aten.cumsum(x, 1), normal(1, 2, 2000).abs()),
    "var": (lambda x: aten.var.correction(x, [1], correction=1), normal(1, 3, 3000) + 2),
    "index_put": (
        lambda z, v: aten.index_put(z, [MANY.clone()], v, True),
        torch.zeros(4, 2),
        normal(1, 3000, 2).abs(),
    ),
    "scatter_add": (
        lambda z, v: aten.scatter_add(z, 0, torch.zeros(3000, 2, dtype=torch.int64), v),
        torch.zeros(4, 2),
        normal(1, 3000, 2).abs(),
    ),
    "avg_pool2d": (lambda x: aten.avg_pool2d(x, [40, 50]), normal(1, 1, 2, 40, 50).abs()),
    "convolution": (
        lambda x, w: aten.convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
        normal(1, 1, 256, 4, 4).abs(),
        normal(2, 3, 256, 3, 3).abs(),
    ),
    "convolution_backward": (
        convolution_backward,
        normal(3, 2, 4, 32, 32).abs(),
        normal(1, 2, 3, 32, 32).abs(),
        normal(2, 4, 3, 3, 3),
    ),
}
BATCH_NORM = {
    "functional": (
        lambda x, w, m, v: aten._native_batch_norm_legit_functional(x, w, w, m, v, True, 0.1, 1e-5),
        normal(1, 4, 3, 20, 20) + 1,
        normal(2, 3),
        normal(3, 3),
        normal(4, 3).abs(),
    ),
    "no_stats": (
        lambda x, w: aten._native_batch_norm_legit.no_stats(x, w, w, True, 0.1, 1e-5),
        normal(1, 4, 3, 20, 20) + 1,
        normal(2, 3),
    ),
    "layer_norm": (
        lambda x, w: aten.native_layer_norm(x, [300], w, w, 1e-5),
        normal(1, 4, 300) + 1,
        normal(2, 300),
    ),
    "group_norm": (
        lambda x, w: aten.native_group_norm(x, w, w, 4, 6, 100, 2, 1e-5),
        normal(1, 4, 6, 10, 10) + 1,
        normal(2, 6),
    ),
}


def needed(node):
    found = rewrites_for(qualified_name(node.target))
    return found[0] if found else None


def run(ops, dtype, rewritten):
    jobs = {}
    for name, (op, *values) in ops.items():
        program = torch.export.export(Half(op, dtype), tuple(values), strict=False)
        program = program.run_decompositions({})
        if rewritten:
            program, done = apply(program, needed)
            assert any(one.applied for one in done), name
        jobs[name] = (program, [tuple(values)] * 2)
    return run_methods(jobs)


def error(got, op, values, dtype):
    """The largest deviation from eager on float32 copies, against the largest result."""
    exact = op(*(v.to(dtype).float() if v.is_floating_point() else v for v in values))
    exact = exact if isinstance(exact, (list, tuple)) else [exact]
    return max(
        float((have - want).abs().max() / want.abs().max())
        for have, want in zip(got, exact, strict=True)
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    """Within one rounding of the exact result."""
    outcome = run(OPS | BATCH_NORM, dtype, True)
    for name, (op, *values) in (OPS | BATCH_NORM).items():
        worst = error(outcome[name][0], op, values, dtype)
        assert worst <= torch.finfo(dtype).eps, name


def test_stock_kernels_fail():
    outcome = run(OPS, torch.bfloat16, False)
    for name, (op, *values) in OPS.items():
        assert error(outcome[name][0], op, values, torch.bfloat16) > 0.02, name


def test_float32_is_left_alone():
    for name, (op, *values) in OPS.items():
        program = torch.export.export(Half(op, torch.float32), tuple(values), strict=False)
        _, done = apply(program.run_decompositions({}), needed)
        assert not any(one.applied for one in done), name


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        return (self.norm(self.layer(x)) * torch.arange(5, dtype=x.dtype)).square().mean()


def test_batch_norm_trains_in_half_precision():
    torch.manual_seed(0)
    model = Small().half()
    x = torch.randn(8, 6).half()
    exported = torch.export.export(model, (x,), strict=False)
    joint, done = apply(trace_joint(exported, strict=False).joint, needed)
    assert any(one.rewrite.name == "batch_norm_training" for one in done)
    got = run_methods({"forward": (joint, [(x,), (x,)])})["forward"][0]
    exact = Small()
    exact.load_state_dict(model.state_dict())
    loss = exact(x.float())
    loss.backward()
    wanted = [loss.detach(), *(p.grad for p in exact.parameters())]
    top = max(float(want.abs().max()) for want in wanted)
    for have, want in zip(got, wanted, strict=False):
        assert float((have.float() - want).abs().max()) <= 0.01 * top


def test_sums():
    def floats(*shape, dims, keepdim=False):
        def make(random):
            return torch.randn(*shape, generator=random, dtype=torch.float64), dims, keepdim

        return Case(f"{shape} over {dims} keepdim={keepdim}", make)

    cases = [
        floats(3, 400, dims=[1]),
        floats(300, 4, dims=[0], keepdim=True),
        floats(2, 30, 4, dims=[-2]),
        floats(2, 3, 40, dims=[-1], keepdim=True),
        floats(500, dims=[0]),
    ]
    check("aten.sum.dim_IntList", cases, dtypes=[torch.float64])


def test_integer_sums_are_exact():
    class Sum(nn.Module):
        def forward(self, x):
            return aten.sum.dim_IntList(x, [1]), aten.sum.dim_IntList(x, [0], True)

    x = torch.randint(0, 2**40, (5, 7), generator=generator(1))
    program = torch.export.export(Sum(), (x,), strict=False).run_decompositions({})
    stock = run_methods({"forward": (program, [(x,), (x,)])})["forward"][0]
    program, _ = apply(program, needed)
    got = run_methods({"forward": (program, [(x,), (x,)])})["forward"][0]
    assert torch.equal(got[0], x.sum(1))
    assert torch.equal(got[1], x.sum(0, True))
    assert not torch.equal(stock[0], x.sum(1))


class Double(nn.Module):
    """A float64 loss whose kernels and numbers are too narrow in stock lowering."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x, y):
        h = 0.7 - self.norm(self.layer(x)) * 0.1 + 0.3
        return nn.functional.cross_entropy(h / 0.9, y)


def test_float64_trains_in_float64():
    torch.manual_seed(0)
    model = Double().double()
    x, y = torch.randn(7, 6, dtype=torch.float64), torch.randint(0, 5, (7,))
    joint = trace_joint(torch.export.export(model, (x, y), strict=False), strict=False).joint
    loss = model(x, y)
    loss.backward()
    wanted = [loss.detach(), *(p.grad for p in model.parameters())]
    top = max(float(want.abs().max()) for want in wanted)

    def worst(choose):
        program, _ = apply(joint, choose)
        got = run_methods({"forward": (program, [(x, y), (x, y)])})["forward"][0]
        errors = [(a - b).abs().max() for a, b in zip(got, wanted, strict=False)]
        return max(map(float, errors)) / top

    def only_what_runs(node):
        found = needed(node)
        return found if found and ("softmax" in found.name or "batch" in found.name) else None

    assert worst(needed) < 1e-14
    assert worst(only_what_runs) > 1e-10
