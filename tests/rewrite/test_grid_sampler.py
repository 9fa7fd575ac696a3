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
    ("nearest", "reflection", False),
    ("bicubic", "reflection", True),
]
"""For the runtime: every mode, padding and alignment; all combinations run in eager."""


def every(rank):
    for mode, padding, align in itertools.product(MODES, PADDINGS, (False, True)):
        if rank == 2 or mode != "bicubic":
            yield mode, padding, align


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


# A program for each case: the time of lowering grows faster than the graph.
@pytest.mark.parametrize("one", COVERING, ids=str)
def test_forward(one):
    check("aten.grid_sampler_2d.default", [forward(2, *one)], dtypes=[torch.float32])


@pytest.mark.parametrize("one", COVERING, ids=str)
def test_backward(one):
    check("aten.grid_sampler_2d_backward.default", [backward(2, *one)], dtypes=[torch.float32])


def test_volumes():
    one = COVERING[1]
    check("aten.grid_sampler_3d.default", [forward(3, *one)], dtypes=[torch.float32])
    check("aten.grid_sampler_3d_backward.default", [backward(3, *one)], dtypes=[torch.float32])


def test_float64():
    one = COVERING[0]
    check("aten.grid_sampler_2d.default", [forward(2, *one)], dtypes=[torch.float64])
    check("aten.grid_sampler_2d_backward.default", [backward(2, *one)], dtypes=[torch.float64])


def spatial_transformer(mode, padding, align):
    def run(h, image):
        grid = F.affine_grid(h.view(2, 2, 3), [2, 3, 4, 4], align_corners=align)
        return F.grid_sample(image, grid, mode, padding, align)

    return lambda: run


def sampled(mode, padding, align):
    return lambda: lambda h, grid: F.grid_sample(h, grid, mode, padding, align)


def test_training():
    flat = "bilinear", "zeros", False
    cases = [
        Training("input", sampled(*flat), (2, 3, 4, 5), extra=lambda r: (normal(r, 2, 3, 4, 2),)),
        Training(
            "grid", spatial_transformer(*flat), (2, 6), extra=lambda r: (normal(r, 2, 3, 4, 4),)
        ),
    ]
    rewrites = ["grid_sampler_2d", "grid_sampler_2d_backward"]
    # float64 graphs reach float32's precision only (8e-7 off here): lowering makes float32 of the
    # numbers in what surrounds the op. The op alone is tested in float64 above.
    check_training(cases, rewrites, dtypes=[torch.float32])
