from __future__ import annotations

import torch
from harness import Case, Training, check, check_training

SHAPE = (3, 7, 2)


def randn(random, *shape):
    return torch.randn(shape, generator=random, dtype=torch.float64)


def along(make=randn):
    return [
        Case(f"{shape} dim {dim}", lambda r, s=shape, d=dim: (make(r, *s), d))
        for shape, dim in ((SHAPE, 0), (SHAPE, 1), (SHAPE, -1), ((9,), 0), ((4, 1), 1))
    ]


def test_cumprod():
    check("aten.cumprod.default", along())


def test_cummax_and_cummin():
    def odd(random, *shape):
        x = (randn(random, *shape) * 2).round()
        x.view(-1)[0] = float("-inf")
        x.view(-1)[3] = float("nan")
        return x

    for op in ("aten.cummax.default", "aten.cummin.default"):
        check(op, along(odd))


def test_logcumsumexp():
    def wide(random, *shape):
        x = randn(random, *shape) * 30
        x.view(-1)[0] = float("-inf")
        return x

    check("aten.logcumsumexp.default", along(wide))


def test_erfc():
    points = torch.linspace(-6, 6, 121, dtype=torch.float64)
    tail = torch.linspace(3, 9, 61, dtype=torch.float64)
    cases = [
        Case("body", lambda r: (points + 0.01 * randn(r, 121),)),
        # By itself: its values are so small that the bound is, too.
        Case("tail", lambda r: (tail + 0.01 * randn(r, 61),)),
    ]
    check("aten.erfc.default", cases)


def test_erfc_is_accurate_where_it_is_small():
    from graphcheck.rewrite.ops.erfc import chebyshev

    x = torch.linspace(-3, 26, 2901, dtype=torch.float64)
    assert float((chebyshev(x) / torch.erfc(x) - 1).abs().max()) <= 4e-15


def test_training():
    def positive(f):
        return lambda: lambda h: f(h.abs() + 0.5)

    check_training(
        [
            Training("cumprod", positive(lambda h: h.cumprod(1)), (4, 6)),
            Training("cummax", lambda: lambda h: h.cummax(1), (4, 6)),
            Training("logcumsumexp", lambda: lambda h: h.logcumsumexp(1), (4, 6)),
            Training("erfc", lambda: torch.erfc, (4, 6)),
        ],
        ["cumprod_scan", "cummax_scan", "logcumsumexp_scan", "erfc_chebyshev"],
    )
