from __future__ import annotations

import torch
from harness import Case, check, generator
from lowered import run_methods
from torch import nn

from graphcheck.rewrite.apply import apply, qualified_name
from graphcheck.rewrite.interface import rewrites_for

GROUP = "aten.native_group_norm.default"
LAYER = "aten.native_layer_norm.default"


def normal(random, *shape):
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def group(shape, groups, affine=True):
    def make(random):
        channels = shape[1]
        positions = torch.Size(shape[2:]).numel()
        parameters = (
            (normal(random, channels), normal(random, channels)) if affine else (None, None)
        )
        x = normal(random, *shape)
        return x, *parameters, shape[0], channels, positions, groups, 1e-5

    return Case(f"{shape} groups={groups} affine={affine}", make)


def layer(shape, normalized, affine=True):
    def make(random):
        parameters = (normal(random, *normalized), normal(random, *normalized))
        x = normal(random, *shape)
        return x, list(normalized), *(parameters if affine else (None, None)), 1e-5

    return Case(f"{shape} over {normalized} affine={affine}", make)


def test_group_norm():
    cases = [group((2, 4, 3, 5), 2), group((3, 4), 2), group((2, 6, 5), 3, affine=False)]
    check(GROUP, [*cases, group((2, 4, 3, 2, 2), 4)])


def test_layer_norm():
    cases = [layer((3, 4, 6), (6,)), layer((3, 4, 6), (4, 6)), layer((3, 4, 6), (6,), affine=False)]
    check(LAYER, cases)


class Far(nn.Module):
    """Norms of data whose mean is 1000 times its spread."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(
            [nn.LayerNorm(8), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4), nn.BatchNorm1d(4)]
        )

    def forward(self, x):
        return tuple(norm(x) for norm in self.norms)


def test_variance_does_not_cancel():
    """Stock kernels take E[x^2] - E[x]^2 in float32, which has no digit left here."""

    def needed(node):
        found = rewrites_for(qualified_name(node.target))
        return found[0] if found and "norm" in str(node.target) else None

    x = torch.randn(6, 4, 8, generator=generator(1)) * 0.1 + 100
    exact = Far().double()(x.double())
    program = torch.export.export(Far(), (x,), strict=False).run_decompositions()
    program, done = apply(program, needed)
    assert all(one.applied for one in done)
    assert len(done) == 4
    for have, want in zip(run(program, x), exact, strict=True):
        assert float((have - want).abs().max()) < 3e-3
    # Without batch norm, which stock lowering refuses.
    program, _ = apply(
        torch.export.export(Far(), (x,), strict=False).run_decompositions(),
        lambda node: needed(node) if "functional" in str(node.target) else None,
    )
    for have, want in zip(run(program, x)[:3], exact[:3], strict=True):
        assert not float((have - want).abs().max()) < 3e-2


def run(program, x):
    return run_methods({"forward": (program, [(x,), (x,)])})["forward"][0]
