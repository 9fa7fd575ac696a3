from __future__ import annotations

import pytest
import torch
from harness import Case, Training, check, check_training
from torch import nn

FUNCTIONAL = "aten._native_batch_norm_legit_functional.default"
NO_STATS = "aten._native_batch_norm_legit.no_stats"
BACKWARD = "aten.native_batch_norm_backward.default"

SHAPES = [(4, 5), (2, 1), (4, 3, 5), (2, 3, 4, 5), (1, 2, 7, 3), (2, 3, 2, 4, 3)]


def normal(random, *shape):
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def functional(shape, affine=True, momentum=0.1, eps=1e-5):
    def make(random):
        channels = shape[1]
        x = normal(random, *shape) * 2
        weight, bias = (normal(random, channels), normal(random, channels))
        mean, var = normal(random, channels), normal(random, channels).abs() + 0.5
        return (
            x,
            weight if affine else None,
            bias if affine else None,
            mean,
            var,
            True,
            momentum,
            eps,
        )

    return Case(f"{shape} affine={affine} momentum={momentum}", make)


def test_functional():
    cases = [functional(shape) for shape in SHAPES]
    cases += [functional((3, 4, 5, 2), affine=False), functional((3, 4, 5, 2), momentum=1.0)]
    cases += [functional((3, 4, 5, 2), momentum=0.0), functional((2, 3, 4, 4), eps=1e-3)]
    check(FUNCTIONAL, cases)


def no_stats(shape, affine=True):
    def make(random):
        channels = shape[1]
        x = normal(random, *shape) * 2
        weight, bias = (normal(random, channels), normal(random, channels))
        return x, weight if affine else None, bias if affine else None, True, 0.1, 1e-5

    return Case(f"{shape} affine={affine}", make)


def test_without_statistics():
    check(NO_STATS, [no_stats(shape) for shape in SHAPES] + [no_stats((3, 4, 5, 2), False)])


@pytest.mark.parametrize("train", [True, False])
def test_backward(train):
    def backward(shape, affine):
        def make(random):
            channels = shape[1]
            x, grad, weight = (
                normal(random, *shape),
                normal(random, *shape),
                normal(random, channels),
            )
            mean, var = normal(random, channels), normal(random, channels).abs() + 0.5
            saved = torch.ops.aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5)
            weight = weight if affine else None
            return (
                grad,
                x,
                weight,
                mean,
                var,
                saved[1],
                saved[2],
                train,
                1e-5,
                [True, affine, affine],
            )

        return Case(f"{shape} affine={affine}", make)

    # Core ATen decompositions take this op apart already; what is left to do is nothing.
    from graphcheck.rewrite.ops.batch_norm import backward as decomposed

    for shape in SHAPES[2:]:
        for affine in (True, False):
            arguments = backward(shape, affine).make(torch.Generator().manual_seed(1))
            want = torch.ops.aten.native_batch_norm_backward.default(*arguments)
            for have, expected in zip(decomposed(*arguments), want, strict=True):
                if have is not None:
                    torch.testing.assert_close(have, expected, rtol=1e-11, atol=1e-11)


def conv(channels):
    return lambda: nn.Conv2d(3, channels, 3, padding=1)


def test_training():
    """The values per channel are a power of two: torch's backward multiplies by 1 / n, which
    lowering rounds to float32, in a float64 graph too."""
    check_training(
        [
            Training("1d", lambda: nn.BatchNorm1d(5), (4, 5)),
            Training("1d of sequences", lambda: nn.BatchNorm1d(3), (4, 3, 8)),
            Training("2d", lambda: nn.BatchNorm2d(4), (2, 3, 2, 8), conv(4)),
            Training("2d, no affine", lambda: nn.BatchNorm2d(3, affine=False), (2, 3, 2, 8)),
            Training("3d", lambda: nn.BatchNorm3d(3), (2, 3, 2, 1, 4)),
            Training(
                "no buffers", lambda: nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 2, 8)
            ),
            Training(
                "instance norm with statistics",
                lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
                (2, 3, 2, 8),
            ),
            Training(
                "two",
                lambda: nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.BatchNorm2d(3)),
                (4, 3, 8, 2),
            ),
        ],
        ["batch_norm_training", "batch_norm_without_statistics", "sum_over_two_dims"],
    )
