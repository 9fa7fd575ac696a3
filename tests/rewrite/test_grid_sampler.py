from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from harness import Case, Training, check, check_training

from graphcheck.rewrite.ops import grid_sampler

MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def normal(random, *shape):
    return torch.randn(*shape, generator=random, dtype=torch.float64)


COVERING = [
    ("bilinear", "zeros", False),
    ("bilinear", "border", True),
    ("bilinear", "reflection", False),
    ("nearest", "zeros", True),
    ("nearest", "reflection", False),
    ("bicubic", "border", False),
    ("bicubic", "reflection", True),
]
"""For the runtime: every mode, padding and alignment; all combinations run in eager."""


def every(rank):
    for mode, padding, align in itertools.product(MODES, PADDINGS, (False, True)):
        if rank == 2 or mode != "bicubic":
            yield mode, padding, align


def covering(rank):
    return [one for one in COVERING if rank == 2 or one[0] != "bicubic"]


def forward(rank, mode, padding, align):
    shape = (2, 3, 4, 5) if rank == 2 else (1, 2, 4, 5, 3)
    points = (3, 6) if rank == 2 else (2, 3, 2)

    def make(random):
        grid = normal(random, shape[0], *points, rank) * 0.9
        return normal(random, *shape), grid, MODES[mode], PADDINGS[padding], align

    return Case(f"{mode} {padding} align={align}", make)


def backward(rank, mode, padding, align):
    def make(random):
        x, grid, *flags = forward(rank, mode, padding, align).make(random)
        grad = normal(random, *x.shape[:2], *grid.shape[1:-1])
        return grad, x, grid, *flags, [True, True]

    return Case(f"{mode} {padding} align={align}", make)


@pytest.mark.parametrize("rank", [2, 3])
def test_every_flag_in_eager(rank):
    for one in every(rank):
        for make, op, decomposed in (
            (forward, f"grid_sampler_{rank}d", grid_sampler.forward),
            (backward, f"grid_sampler_{rank}d_backward", grid_sampler.backward),
        ):
            arguments = make(rank, *one).make(torch.Generator().manual_seed(1))
            have = decomposed(*arguments)
            want = getattr(torch.ops.aten, op).default(*arguments)
            torch.testing.assert_close(have, want, rtol=1e-11, atol=1e-11, msg=f"{op} {one}")


@pytest.mark.parametrize("rank", [2, 3])
def test_forward(rank):
    check(f"aten.grid_sampler_{rank}d.default", [forward(rank, *one) for one in covering(rank)])


@pytest.mark.parametrize("rank", [2, 3])
def test_backward(rank):
    op = f"aten.grid_sampler_{rank}d_backward.default"
    check(op, [backward(rank, *one) for one in covering(rank)])


def spatial_transformer(mode, padding, align):
    def run(h, image):
        grid = F.affine_grid(h.view(2, 2, 3), [2, 3, 4, 4], align_corners=align)
        return F.grid_sample(image, grid, mode, padding, align)

    return lambda: run


def sampled(mode, padding, align):
    return lambda: lambda h, grid: F.grid_sample(h, grid, mode, padding, align)


def test_training():
    graphs = [
        ("bilinear", "zeros", False),
        ("bicubic", "border", True),
        ("nearest", "zeros", False),
    ]
    cases = [
        Training(
            f"input {one}", sampled(*one), (2, 3, 4, 5), extra=lambda r: (normal(r, 2, 3, 4, 2),)
        )
        for one in graphs
    ]
    cases += [
        Training(
            f"grid {one}",
            spatial_transformer(*one),
            (2, 6),
            extra=lambda r: (normal(r, 2, 3, 4, 4),),
        )
        for one in graphs[:2]
    ]
    check_training(cases, ["grid_sampler_2d", "grid_sampler_2d_backward"])
