from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from harness import Case, Training, check, check_training

OP = "aten.max_pool2d_with_indices_backward.default"

# kernel, stride, padding, dilation, ceil_mode
SHAPES = [
    ((2, 3, 6, 7), [2, 2], [2, 2], [0, 0], [1, 1], False),
    ((2, 3, 6, 7), [3, 3], [1, 1], [1, 1], [1, 1], False),
    ((2, 3, 7, 6), [3, 3], [2, 2], [1, 1], [1, 1], False),
    ((2, 3, 6, 7), [2, 2], [1, 1], [0, 0], [2, 2], False),
    ((2, 3, 5, 7), [2, 2], [2, 2], [0, 0], [1, 1], True),
    ((2, 3, 6, 7), [3, 2], [2, 1], [1, 0], [1, 2], True),
    ((2, 3, 6, 7), [1, 1], [1, 1], [0, 0], [1, 1], False),
    ((1, 4, 6, 7), [6, 7], [6, 7], [0, 0], [1, 1], False),
    ((2, 3, 7, 8), [2, 2], [3, 3], [0, 0], [1, 1], False),
    ((3, 6, 4), [2, 2], [2, 2], [0, 0], [1, 1], False),
    ((2, 2, 6, 4), [2, 2], [], [0, 0], [1, 1], False),
]


def case(shape, kernel, stride, padding, dilation, ceil_mode, ties=False):
    def make(random):
        x = torch.randn(shape, generator=random, dtype=torch.float64)
        x = x.round() if ties else x
        out, indices = torch.ops.aten.max_pool2d_with_indices(
            x, kernel, stride, padding, dilation, ceil_mode
        )
        grad = torch.randn(out.shape, generator=random, dtype=torch.float64)
        return grad, x, kernel, stride, padding, dilation, ceil_mode, indices

    label = f"{shape} k{kernel} s{stride} p{padding} d{dilation} {'ceil' if ceil_mode else 'floor'}"
    return Case(label + (" ties" if ties else ""), make)


def test_scatter():
    cases = [case(*one) for one in SHAPES]
    cases += [case(*one, ties=True) for one in SHAPES[:4]]
    check(OP, cases, rewrite="max_pool2d_backward_scatter")


def test_training():
    def conv():
        return torch.nn.Conv2d(3, 4, 3, padding=1)

    check_training(
        [
            Training("pool 2", lambda: torch.nn.MaxPool2d(2), (2, 3, 6, 7), conv),
            Training("pool 3/2/1", lambda: torch.nn.MaxPool2d(3, 2, 1), (2, 3, 7, 6), conv),
            Training("pool 1d", lambda: torch.nn.MaxPool1d(3, 2, 1), (2, 3, 8)),
            Training(
                "unpool",
                lambda: lambda h: F.max_unpool2d(*F.max_pool2d(h, 2, return_indices=True), 2),
                (2, 3, 6, 4),
                conv,
            ),
        ],
        ["max_pool2d_backward_scatter"],
    )


def test_stock_kernel_fails_this_harness():
    """The kernel that this rewrite replaces adds to what the memory held before."""
    graph = Training("pool", lambda: torch.nn.MaxPool2d(2), (2, 3, 6, 7))
    with pytest.raises(AssertionError, match=r"is off by|NaN"):
        check_training([graph], [])
