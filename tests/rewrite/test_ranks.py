"""Order statistics and searches: kthvalue, medians, mode, bucketize, searchsorted."""

from __future__ import annotations

import torch
from harness import Case, Training, check, check_training

SHAPE = (3, 7, 2)
SINGLE = (torch.float32,)


def randn(random, *shape):
    return torch.randn(shape, generator=random, dtype=torch.float64)


def with_nan(random, *shape):
    x = randn(random, *shape)
    x.view(-1)[3] = float("nan")
    return x


def along(make, *more):
    return [
        Case(f"dim {dim} {keep}", lambda r, d=dim, k=keep: (make(r, *SHAPE), *more, d, k))
        for dim in (0, 1, -1)
        for keep in (False, True)
    ]


def test_kthvalue():
    for k in (1, 2):
        check("aten.kthvalue.default", along(randn, k), dtypes=SINGLE)


def test_medians():
    for op in ("aten.median.dim", "aten.nanmedian.dim"):
        check(op, along(with_nan), dtypes=SINGLE)
    whole = [
        Case("odd", lambda r: (randn(r, 3, 5),)),
        Case("even", lambda r: (randn(r, 4, 5),)),
        Case("with NaN", lambda r: (with_nan(r, 4, 5),)),
    ]
    for op in ("aten.median.default", "aten.nanmedian.default"):
        check(op, whole, dtypes=SINGLE)


def test_mode():
    check(
        "aten.mode.default",
        along(lambda r, *shape: (randn(r, *shape) * 1.5).round()),
        dtypes=SINGLE,
    )


def test_bucketize_and_searchsorted():
    def boundaries(random, *shape):
        return randn(random, *shape).sort(-1)[0]

    flags = [{"right": right, "out_int32": small} for right, small in ((0, 0), (1, 0), (0, 1))]
    flags = [{name: bool(value) for name, value in one.items()} for one in flags]
    check(
        "aten.bucketize.Scalar",
        [
            Case(f"{x} {f}", lambda r, x=x: (x, boundaries(r, 6)), f)
            for x in (0.2, 1)
            for f in flags
        ],
    )
    check(
        "aten.searchsorted.Tensor",
        [
            *(Case(f"rows {f}", lambda r: (boundaries(r, 3, 6), randn(r, 3, 4)), f) for f in flags),
            Case("one row", lambda r: (boundaries(r, 6), with_nan(r, 3, 4))),
            Case("side", lambda r: (boundaries(r, 6), randn(r, 5)), {"side": "right"}),
        ],
    )
    check(
        "aten.searchsorted.Scalar",
        [Case(str(f), lambda r: (boundaries(r, 6), 0.3), f) for f in flags],
    )


def test_sorter():
    from graphcheck.rewrite.ops.bucketize import searched

    x, values = torch.randn(3, 6), torch.randn(3, 4)
    order = x.argsort(-1)
    wanted = torch.searchsorted(x, values, sorter=order)
    assert torch.equal(searched(x, values, sorter=order), wanted)


def test_training():
    check_training(
        [
            Training("kthvalue", lambda: lambda h: h.kthvalue(2, 1)[0], (4, 6)),
            Training("median", lambda: lambda h: h.median(1)[0], (4, 6)),
            Training("median of all", lambda: torch.median, (4, 6)),
            Training("nanmedian", lambda: lambda h: h.nanmedian(0)[0], (4, 6)),
            Training("mode", lambda: lambda h: h.mode(1)[0], (4, 6)),
        ],
        ["kthvalue_topk", "median_dim_topk", "median_topk", "nanmedian_dim_topk", "mode_count"],
        dtypes=SINGLE,
    )
