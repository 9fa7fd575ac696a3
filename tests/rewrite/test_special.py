"""Special functions: gamma and its derivatives, erfinv, ndtri, hypot; writing a diagonal."""

from __future__ import annotations

import math

import pytest
import torch
from harness import Case, Training, check, check_training

from graphcheck.rewrite.ops import bessel, erfinv, gamma


def randn(random, *shape):
    return torch.randn(shape, generator=random, dtype=torch.float64)


# These compute in float64 whatever the dtype; float64 itself is compared in eager, for lowering
# hundreds of nodes takes its time.
SINGLE = (torch.float32,)


def points(low, high, count=101):
    """Off the whole numbers, where some of the functions are infinite."""
    line = torch.linspace(low, high, count, dtype=torch.float64) + 0.0137
    return lambda r: (line + 0.001 * torch.rand(count, generator=r, dtype=torch.float64),)


def test_gamma():
    for op in ("aten.lgamma.default", "aten.digamma.default"):
        cases = [Case("right", points(0.2, 30)), Case("left", points(-3.9, 0.4, 40))]
        check(op, cases, dtypes=SINGLE)
    polygamma = [
        Case(f"{n} from {low}", lambda r, n=n, low=low: (n, *points(low, low + 4)(r)))
        for n in (0, 1)
        for low in (-3.9, 0.3)
    ]
    check("aten.polygamma.default", polygamma, dtypes=SINGLE)


def test_gamma_in_float64():
    x = torch.linspace(-20.3, 60, 4001, dtype=torch.float64)
    for ours, eager in (
        (gamma.lgamma, torch.lgamma),
        (gamma.digamma, torch.digamma),
        (gamma.trigamma, lambda x: torch.polygamma(1, x)),
    ):
        right = x > 0.1
        off = (ours(x) - eager(x)).abs() / eager(x).abs().clamp(min=1.0)
        assert float(off[right].max()) <= 1e-14
        # Near a pole rounding x alone counts for more: 1e-16 of 20, times the slope 1 / 0.05^2.
        away = (x - x.round()).abs() > 0.05
        assert float(off[away].max()) <= 2e-12


@pytest.mark.parametrize("ours", [gamma.lgamma, gamma.digamma])
def test_gamma_at_the_edges(ours):
    eager = {gamma.lgamma: torch.lgamma, gamma.digamma: torch.digamma}[ours]
    x = torch.tensor([0.0, -0.0, -1, -5, math.inf, math.nan, 1e-300, 1e300], dtype=torch.float64)
    torch.testing.assert_close(ours(x), eager(x), rtol=1e-15, atol=0, equal_nan=True)


def test_polygamma_of_higher_order_is_left():
    assert gamma.polygamma(2, torch.ones(1)) is NotImplemented


def test_erfinv_and_ndtri():
    check("aten.erfinv.default", [Case("inside", points(-0.99, 0.97))], dtypes=SINGLE)
    check("aten.special_ndtri.default", [Case("inside", points(0.01, 0.97))], dtypes=SINGLE)


def test_erfinv_in_float64():
    near_one = 1 - torch.logspace(-16, -1, 200, dtype=torch.float64)
    tiny = torch.logspace(-300, -1, 100, dtype=torch.float64)
    x = torch.cat([torch.linspace(-1, 1, 2001, dtype=torch.float64)[1:-1], near_one, tiny])
    x = torch.where(x == 0, torch.full_like(x, 0.5), x)
    assert float((erfinv.halley(x) / torch.erfinv(x) - 1).abs().max()) <= 1e-14
    edges = torch.tensor([-1.0, 1.0, 0.0, 1.5, -2.0, math.nan], dtype=torch.float64)
    assert str(erfinv.halley(edges)) == str(torch.erfinv(edges))


def test_hypot():
    def odd(random):
        x, y = randn(random, 40) * 1e30, randn(random, 40) * 1e30
        x[0] = y[0] = 0
        x[1], y[1] = math.inf, math.nan
        x[2] = 0
        return x, y

    check(
        "aten.hypot.default",
        [Case("wide", odd), Case("broadcast", lambda r: (randn(r, 3, 1), randn(r, 4)))],
    )


def test_bessel():
    for op in ("i0", "special_i1e"):
        check(f"aten.{op}.default", [Case("all", points(-30, 30))], dtypes=SINGLE)


def test_bessel_in_float64():
    x = torch.cat([torch.linspace(-700, 700, 4001), torch.linspace(-9, 9, 2001)]).double()
    edges = torch.tensor([0.0, math.inf, -math.inf, math.nan], dtype=torch.float64)
    for rewrite in bessel.REWRITES:
        eager = getattr(torch.special, rewrite.op.split(".")[1].removeprefix("special_"))
        torch.testing.assert_close(rewrite.decompose(x), eager(x), rtol=2e-15, atol=0)
        torch.testing.assert_close(rewrite.decompose(edges), eager(edges), equal_nan=True)


def test_exp2_copysign_fmax_fmin():
    def odd(random):
        x, y = randn(random, 30), randn(random, 30)
        x[0], y[1] = math.nan, math.nan
        x[2], y[2] = math.nan, math.nan
        x[3], y[3] = 2, -math.inf
        return x, y

    def signs(random):
        x, y = odd(random)
        y[4], y[5] = -0.0, 0.0
        return x, torch.nan_to_num(y)

    check("aten.exp2.default", [Case("all", lambda r: (20 * randn(r, 50),))])
    check("aten.copysign.Tensor", [Case("all", signs)])
    check(
        "aten.copysign.Scalar", [Case(str(n), lambda r, n=n: (randn(r, 9), n)) for n in (2, -0.0)]
    )
    for op in ("aten.fmax.default", "aten.fmin.default"):
        check(op, [Case("all", odd)])


def test_diagonal_scatter():
    def make(random, offset, dim1, dim2):
        x = randn(random, 3, 5, 4)
        source = torch.diagonal(x, offset, dim1, dim2)
        return x, randn(random, *source.shape), offset, dim1, dim2

    cases = [
        Case(f"{offset} {dims}", lambda r, o=offset, d=dims: make(r, o, *d))
        for offset in (-2, -1, 0, 1, 2)
        for dims in ((0, 1), (0, 2), (2, 1))
    ]
    check("aten.diagonal_scatter.default", cases)


def test_training():
    check_training(
        [
            Training("lgamma", lambda: lambda h: torch.lgamma(h.abs() + 0.25), (4, 6)),
            Training("digamma", lambda: lambda h: torch.digamma(h.abs() + 0.25), (4, 6)),
            Training("erfinv", lambda: lambda h: torch.erfinv(h.tanh() * 0.875), (4, 6)),
            Training("hypot", lambda: lambda h: torch.hypot(h, h + 1), (4, 6)),
            Training("i0", lambda: torch.special.i0, (4, 6)),
            Training("exp2", lambda: torch.exp2, (4, 6)),
            Training("copysign", lambda: lambda h: torch.copysign(h, -h), (4, 6)),
            Training("fmax", lambda: lambda h: torch.fmax(h, 0.5 * h), (4, 6)),
            Training("diag", lambda: lambda h: torch.diagonal(h, 1).square(), (4, 6)),
        ],
        [
            "lgamma_stirling",
            "digamma_series",
            "polygamma_series",
            "erfinv_halley",
            "hypot_ratio",
            "diagonal_scatter_mask",
            "i0_chebyshev",
            "i1_chebyshev",
            "exp2_pow",
            "copysign_where",
            "fmax_where",
        ],
        dtypes=SINGLE,
    )
