from __future__ import annotations

import torch
import torch.nn.functional as F
from harness import Case, Training, check, check_training


def randn(random, *shape):
    return torch.randn(shape, generator=random, dtype=torch.float64)


def test_negative_amounts():
    amounts = [
        ([-1, 1], 0.0),
        ([-1, -2, 0, -1], 0.0),
        ([2, -1, -1, 3], 1.5),
        ([0, 0, -1, 0, 2, 1], -2.0),
        ([0, -2, 0, 0, 0, 0, -1, 1], 0.0),
    ]
    cases = [
        Case(str(pad), lambda r, pad=pad, value=value: (randn(r, 3, 2, 4, 5), pad, value))
        for pad, value in amounts
    ]
    check("aten.constant_pad_nd.default", cases)


def test_positive_amounts_stay():
    from graphcheck.rewrite.ops.constant_pad_nd import cut_then_pad

    assert cut_then_pad(torch.ones(2, 3), [1, 0]) is NotImplemented


def replicated(shape, pad):
    def make(random):
        out = F.pad(randn(random, *shape), pad, mode="replicate")
        return randn(random, *out.shape), randn(random, *shape), pad

    return Case(f"{shape} {pad}", make)


def test_replication():
    check(
        "aten.replication_pad1d_backward.default",
        [
            replicated((2, 3, 5), [2, 1]),
            replicated((3, 1), [2, 3]),
            replicated((2, 3, 2), [0, 20]),
            replicated((2, 3, 6), [-1, 2]),
        ],
    )
    check(
        "aten.replication_pad2d_backward.default",
        [
            replicated((2, 3, 4, 5), [1, 1, 1, 1]),
            replicated((2, 3, 2, 3), [0, 4, 3, 0]),
            replicated((3, 4, 1), [2, 1, 0, 1]),
        ],
    )
    check(
        "aten.replication_pad3d_backward.default",
        [
            replicated((1, 2, 3, 2, 4), [1, 2, 0, 1, 3, 0]),
            replicated((2, 3, 3, 3), [1, 1, 1, 1, 1, 1]),
        ],
    )


def test_training():
    def pad(amounts, **kwargs):
        return lambda: lambda h: F.pad(h, amounts, **kwargs)

    check_training(
        [
            Training("constant", pad((1, 2, 0, 1), value=3.0), (2, 3, 4, 5)),
            Training("negative", pad((-1, 1)), (2, 3, 4, 5)),
            Training("replicate 1d", pad((2, 1), mode="replicate"), (2, 3, 5)),
            Training("replicate 2d", pad((1, 0, 2, 1), mode="replicate"), (2, 3, 4, 5)),
            Training("replicate 3d", pad((1, 0, 2, 1, 1, 1), mode="replicate"), (1, 2, 3, 3, 3)),
            Training("circular", pad((1, 1, 1, 1), mode="circular"), (2, 3, 4, 5)),
            Training("same", lambda: torch.nn.Conv2d(3, 4, 4, padding="same"), (2, 3, 6, 5)),
        ],
        [
            "constant_pad_nd_slice",
            "replication_pad1d_backward_edges",
            "replication_pad2d_backward_edges",
            "replication_pad3d_backward_edges",
            "new_empty_strided_zeros",
        ],
    )
