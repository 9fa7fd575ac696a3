"""Bilinear layers and weight normalization."""

from __future__ import annotations

import torch
from harness import Case, Training, check, check_training
from torch import nn

from graphcheck.rewrite.ops.addmm_as_mm import addmm_as_mm
from graphcheck.rewrite.ops.weight_norm import forward as decomposed


def normal(random, *shape):
    return torch.randn(*shape, generator=random, dtype=torch.float64)


class Pair(nn.Module):
    def __init__(self, bias=True):
        super().__init__()
        self.bilinear = nn.Bilinear(6, 6, 3, bias=bias)

    def forward(self, h):
        return self.bilinear(h, torch.tanh(h) * 2)


def test_trilinear():
    def forward(random):
        operands = normal(random, 4, 6), normal(random, 3, 6, 5), normal(random, 4, 5)
        return *operands, [1, 3], [0], [1, 2], [2, 3]

    def by_weight(random):
        operands = normal(random, 4, 3), normal(random, 4, 6), normal(random, 4, 5)
        return *operands, [2, 3], [1, 3], [1, 2], [0]

    op = "aten._trilinear.default"
    check(op, [Case("forward", forward), Case("gradient of the weight", by_weight)])
    check_training(
        [Training("bilinear", Pair, (4, 6)), Training("sequence", lambda: Pair(False), (2, 3, 6))],
        ["trilinear", "sum_over_two_dims"],
    )


def test_weight_norm():
    def forward(dim):
        def make(random):
            return (
                normal(random, 4, 5, 3),
                normal(random, *((4, 1, 1) if dim == 0 else (1, 1, 3))),
                dim,
            )

        return Case(f"dim={dim}", make)

    def backward(dim):
        def make(random):
            v, g, _ = forward(dim).make(random)
            norms = torch.ops.aten._weight_norm_interface(v, g, dim)[1]
            return normal(random, *v.shape), v, g, norms, dim

        return Case(f"dim={dim}", make)

    # Core ATen decompositions take the forward op apart already.
    for dim in (0, 2):
        arguments = forward(dim).make(torch.Generator().manual_seed(1))
        want = torch.ops.aten._weight_norm_interface(*arguments)
        for one, other in zip(decomposed(*arguments), want, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    check("aten._weight_norm_interface_backward.default", [backward(0), backward(2)])


def test_weight_norm_training():
    def normed(layer, **options):
        return lambda: nn.utils.parametrizations.weight_norm(layer(), **options)

    check_training(
        [
            Training("linear", normed(lambda: nn.Linear(6, 5)), (3, 6)),
            Training("linear, last dim", normed(lambda: nn.Linear(6, 5), dim=1), (3, 6)),
            Training("convolution", normed(lambda: nn.Conv2d(3, 4, 3)), (2, 3, 5, 6)),
        ],
        ["weight_norm_backward", "sum_over_two_dims"],
    )


def test_addmm_as_mm():
    def make(random):
        return normal(random, 5), normal(random, 3, 7), normal(random, 7, 5)

    def full(random):
        return normal(random, 3, 5), *make(random)[1:]

    factors = {"beta": 0.5, "alpha": -2}
    check(
        "aten.addmm.default",
        [
            Case("a row", make),
            Case("a matrix", full),
            Case("factors", make, factors),
            Case("no bias", full, {"beta": 0}),
        ],
        rewrite="addmm_as_mm",
        dtypes=(torch.float32, torch.float64),
    )
    half = torch.zeros(2, 2, dtype=torch.bfloat16)
    assert addmm_as_mm(half, half, half) is NotImplemented
