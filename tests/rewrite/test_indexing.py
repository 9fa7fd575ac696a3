from __future__ import annotations

import itertools

import torch
from harness import Case, Training, check, check_training

SHAPE = (3, 7, 2)


def randn(random, *shape):
    return torch.randn(shape, generator=random, dtype=torch.float64)


def ties(random, *shape):
    return (randn(random, *shape) * 2).round()


def test_sort():
    cases = [
        Case(f"dim {dim} {down}", lambda r, d=dim, b=down: (ties(r, *SHAPE), d, b))
        for dim in (0, 1, -1)
        for down in (False, True)
    ]
    cases.append(Case("one row", lambda r: (ties(r, 12), 0, False)))
    cases.append(Case("one element", lambda r: (ties(r, 4, 1), 1, False)))
    check("aten.sort.default", cases)
    cases = [
        Case(case.label, lambda r, case=case: case.make(r)[:1], {"stable": True, "dim": 0})
        for case in cases[:2]
    ]
    check("aten.sort.stable", cases)


def test_scatter_reduce():
    def make(random, dim, reduce):
        size = SHAPE[dim]
        # Smaller than the target in one dim, than the source in another.
        index = torch.randint(0, size, (2, 5, 2), generator=random)
        return randn(random, *SHAPE), dim, index, randn(random, 3, 6, 2), reduce

    flags = itertools.product((0, 1, -1), ("sum", "mean", "prod", "amax", "amin"), (True, False))
    cases = [
        Case(f"{dim} {how} {own}", lambda r, d=dim, h=how: make(r, d, h), {"include_self": own})
        for dim, how, own in flags
    ]
    check("aten.scatter_reduce.two", cases)


def test_put():
    def make(random, accumulate):
        index = torch.randperm(24, generator=random)[:6].reshape(2, 3)
        index = index % 5 if accumulate else index
        return randn(random, 4, 6), index, randn(random, 2, 3), accumulate

    check("aten.put.default", [Case(str(a), lambda r, a=a: make(r, a)) for a in (False, True)])


def test_masked_scatter_backward():
    def make(random, shape, sizes):
        mask = torch.rand(shape, generator=random) > 0.5
        return randn(random, 4, 5), mask, sizes

    cases = [
        Case("same", lambda r: make(r, (4, 5), [4, 5])),
        Case("larger source", lambda r: make(r, (4, 5), [3, 9])),
        Case("broadcast mask", lambda r: make(r, (4, 1), [21])),
    ]
    check("aten.masked_scatter_backward.default", cases)


def test_as_strided_scatter():
    cases = [
        Case("whole", lambda r: (randn(r, 24), randn(r, 4, 6), [4, 6], [6, 1], 0)),
        Case("part", lambda r: (randn(r, 4, 6), randn(r, 3, 2), [3, 2], [6, 2], 1)),
        Case("turned", lambda r: (randn(r, 4, 6), randn(r, 6, 4), [6, 4], [1, 6])),
    ]
    check("aten.as_strided_scatter.default", cases)


def test_bucketize():
    def make(random):
        edges = torch.tensor([-2.0, 0.0, 0.0, 1.0, 2.0], dtype=torch.float64)
        x = ties(random, 4, 6)
        x[0, 0] = float("nan")
        return x, edges

    cases = [
        Case(f"{right} {small}", make, {"right": right, "out_int32": small})
        for right in (False, True)
        for small in (False, True)
    ]
    check("aten.bucketize.Tensor", cases)


def indices(*shape, high):
    return lambda random: (torch.randint(0, high, shape, generator=random),)


def test_training():
    def target():
        return torch.zeros(4, 6)

    def reduced(how):
        return lambda: lambda h, i: torch.zeros_like(h).scatter_reduce(1, i, h, how)

    mask = lambda r: (torch.rand(4, 6, generator=r) > 0.5,)  # noqa: E731
    check_training(
        [
            Training("sort", lambda: lambda h: h.sort(1), (4, 6)),
            Training("sum", reduced("sum"), (4, 6), extra=indices(4, 6, high=6)),
            Training("mean", reduced("mean"), (4, 6), extra=indices(4, 6, high=6)),
            Training("amax", reduced("amax"), (4, 6), extra=indices(4, 6, high=6)),
            Training("take", lambda: lambda h, i: h.take(i), (4, 6), extra=indices(5, high=24)),
            Training("masked", lambda: lambda h, m: h.masked_scatter(m, h * 2), (4, 6), extra=mask),
            Training("silu", torch.nn.SiLU, (4, 6)),
            Training(
                "channels last",
                lambda: (
                    lambda h: torch.nn.functional.adaptive_avg_pool2d(
                        h.permute(0, 3, 1, 2), 1
                    ).flatten(1)
                ),
                (2, 3, 4, 5),
            ),
        ],
        [
            "sort_topk",
            "scatter_reduce_table",
            "put_index_put",
            "masked_scatter_backward_position",
            "empty_permuted_zeros",
            "as_strided_scatter_scatter",
        ],
    )
