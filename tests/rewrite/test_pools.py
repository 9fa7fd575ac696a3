from __future__ import annotations

import itertools

import pytest
import torch
from harness import Case, Training, check, check_training
from torch import nn

aten = torch.ops.aten
FLAGS = list(itertools.product([False, True], [True, False], [None, 3]))


def randn(random, *shape):
    return torch.randn(shape, generator=random, dtype=torch.float64)


def average(dims, shape, kernel, stride, padding, ceil_mode, include, divisor):
    def make(random):
        x = randn(random, *shape)
        rest = kernel, stride, padding, ceil_mode, include, divisor
        return randn(random, *getattr(aten, f"avg_pool{dims}d")(x, *rest).shape), x, *rest

    label = f"{shape} k{kernel} s{stride} p{padding} ceil={ceil_mode} include={include} {divisor}"
    return Case(label, make)


AVERAGE_2D = [
    *(average(2, (2, 3, 7, 6), [3, 2], [2, 1], [1, 0], *flags) for flags in FLAGS),
    *(average(2, (2, 3, 5, 8), [3, 3], [2, 2], [1, 1], *flags) for flags in FLAGS[::3]),
    average(2, (2, 3, 6, 4), [2, 2], [], [0, 0], False, True, None),
    average(2, (3, 6, 7), [2, 3], [3, 1], [0, 1], True, False, None),
    average(2, (2, 3, 7, 5), [7, 5], [7, 5], [0, 0], False, True, None),
    average(2, (1, 1, 3, 4), [1, 1], [1, 1], [0, 0], False, True, None),
]
AVERAGE_3D = [
    *(average(3, (2, 2, 5, 6, 4), [3, 2, 2], [2, 2, 1], [1, 0, 1], *flags) for flags in FLAGS[::2]),
    average(3, (1, 2, 5, 5, 4), [3, 2, 2], [2, 2, 1], [1, 0, 1], True, False, 3),
    average(3, (1, 2, 4, 6, 2), [2, 3, 1], [], [0, 0, 0], False, True, None),
    average(3, (2, 5, 4, 3), [2, 2, 2], [3, 1, 2], [0, 1, 0], True, False, None),
    average(3, (2, 1, 6, 3, 4), [5, 1, 1], [1, 1, 1], [0, 0, 0], False, True, None),
]


def test_avg_pool2d_backward():
    check("aten.avg_pool2d_backward.default", AVERAGE_2D)


def test_avg_pool3d():
    forward = [
        Case(case.label, lambda random, case=case: case.make(random)[1:]) for case in AVERAGE_3D
    ]
    check("aten.avg_pool3d.default", forward)
    check("aten.avg_pool3d_backward.default", AVERAGE_3D)


ADAPTIVE = {
    2: [
        ((2, 3, 6, 7), [4, 3]),
        ((2, 3, 6, 9), [3, 3]),
        ((2, 3, 3, 2), [7, 7]),
        ((3, 5, 7), [1, 1]),
        ((2, 2, 4, 5), [4, 5]),
        ((1, 2, 31, 9), [7, 1]),
    ],
    3: [((2, 2, 4, 6, 5), [2, 3, 2]), ((2, 2, 4, 6, 2), [2, 3, 1]), ((2, 3, 5, 4), [5, 2, 3])],
}


def adaptive(shape, size, op=None, ties=False):
    """Arguments of the backward: of the mean, or of the max if `op` is given."""

    def make(random):
        x = randn(random, *shape)
        x = x.round() if ties else x
        grad = randn(random, *shape[: -len(size)], *size)
        return (grad, x) if op is None else (grad, x, op(x, size)[1])

    return Case(f"{shape} to {size}{' ties' if ties else ''}", make)


def test_adaptive_average():
    # To one single output the op becomes a mean before.
    cases = [adaptive(*one) for one in ADAPTIVE[2] if one[1] != [1, 1]]
    check("aten._adaptive_avg_pool2d_backward.default", cases)
    cases = [adaptive(*one) for one in ADAPTIVE[3]]
    check("aten._adaptive_avg_pool3d_backward.default", cases)
    cases = [
        Case(f"{shape} to {size}", lambda random, s=shape, o=size: (randn(random, *s), o))
        for shape, size in ADAPTIVE[3]
    ]
    check("aten._adaptive_avg_pool3d.default", cases)


@pytest.mark.parametrize("dims", [2, 3])
def test_adaptive_max(dims):
    def forward(shape, size, ties):
        def make(random):
            x = randn(random, *shape)
            return (x.round() if ties else x), size

        return Case(f"{shape} to {size}{' ties' if ties else ''}", make)

    shapes = ADAPTIVE[dims]
    # Ties in every other case.
    both = [(one, bool(index % 2)) for index, one in enumerate([*shapes, *shapes[:1]])]
    name = f"aten.adaptive_max_pool{dims}d"
    check(f"{name}.default", [forward(*one, ties) for one, ties in both])
    op = getattr(aten, f"adaptive_max_pool{dims}d")
    check(f"{name}_backward.default", [adaptive(*one, op, ties) for one, ties in both])


MAX_3D = [
    ((2, 2, 4, 6, 4), [2, 2, 2], [], [0, 0, 0], [1, 1, 1], False),
    ((2, 2, 5, 6, 7), [3, 2, 3], [2, 1, 2], [1, 1, 1], [1, 1, 1], False),
    ((1, 3, 5, 4, 6), [2, 3, 2], [2, 2, 2], [1, 1, 0], [2, 1, 2], True),
    ((2, 5, 4, 3), [2, 2, 2], [1, 1, 1], [0, 0, 0], [1, 1, 1], True),
    ((2, 1, 4, 3, 3), [3, 3, 3], [2, 2, 2], [1, 1, 1], [1, 1, 1], False),
]


def test_max_pool3d():
    def values(random, shape, ties):
        x = randn(random, *shape)
        if ties == "infinite":
            return torch.where(x < 0.7, float("-inf"), x)
        return x.round() if ties else x

    def forward(shape, *rest, ties=""):
        return Case(f"{shape} {rest} {ties}", lambda r: (values(r, shape, ties), *rest))

    def backward(shape, *rest):
        def make(random):
            x = values(random, shape, "ties")
            out, indices = aten.max_pool3d_with_indices(x, *rest)
            return randn(random, *out.shape), x, *rest, indices

        return Case(f"{shape} {rest}", make)

    kinds = ("", "ties", "infinite", "ties", "infinite")
    cases = [forward(*one, ties=kind) for one, kind in zip(MAX_3D, kinds, strict=True)]
    cases.append(forward(*MAX_3D[1], ties="infinite"))
    check("aten.max_pool3d_with_indices.default", cases)
    check("aten.max_pool3d_with_indices_backward.default", [backward(*one) for one in MAX_3D])


FRACTIONAL = [
    ((2, 3, 7, 6), [2, 3], [3, 2]),
    ((2, 3, 7, 9), [3, 3], [1, 4]),
    ((3, 6, 8), [2, 2], [4, 5]),
]


def test_fractional_max_pool2d():
    def arguments(random, shape, kernel, size):
        lead = shape[:-2] if len(shape) == 4 else (1, shape[0])
        # Sixteenths: the cut to an integer must not depend on the dtype.
        samples = torch.randint(1, 16, (*lead, 2), generator=random).double() / 16
        return randn(random, *shape).round(), kernel, size, samples

    def backward(random, shape, kernel, size):
        x, kernel, size, samples = arguments(random, shape, kernel, size)
        out, indices = aten.fractional_max_pool2d(x, kernel, size, samples)
        return randn(random, *out.shape), x, kernel, size, indices

    cases = [Case(str(one), lambda r, one=one: arguments(r, *one)) for one in FRACTIONAL]
    check("aten.fractional_max_pool2d.default", cases)
    cases = [Case(str(one), lambda r, one=one: backward(r, *one)) for one in FRACTIONAL]
    check("aten.fractional_max_pool2d_backward.default", cases)


def test_training():
    def plane():
        return nn.Conv2d(3, 3, 3, padding=1)

    image, box = (2, 3, 6, 7), (2, 2, 4, 4, 6)
    check_training(
        [
            Training("avg 3/2/1", lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True), image, plane),
            Training("avg 1d", lambda: nn.AvgPool1d(3, 2, 1), (2, 3, 8)),
            Training("adaptive max", lambda: nn.AdaptiveMaxPool2d(3), image, plane),
            Training("adaptive max 1d", lambda: nn.AdaptiveMaxPool1d(2), (2, 3, 7)),
            Training("adaptive avg 3d", lambda: nn.AdaptiveAvgPool3d((2, 3, 4)), box),
            Training("adaptive max 3d", lambda: nn.AdaptiveMaxPool3d((2, 3, 4)), box),
            Training("max 3d", lambda: nn.MaxPool3d(3, 2, 1), box),
            Training("avg 3d", lambda: nn.AvgPool3d(2, 1, 1), box),
        ],
        [
            "avg_pool2d_backward_shifts",
            "adaptive_max_pool2d_windows",
            "adaptive_max_pool2d_backward_scatter",
            "adaptive_avg_pool3d_products",
            "adaptive_avg_pool3d_backward_products",
            "adaptive_max_pool3d_windows",
            "adaptive_max_pool3d_backward_scatter",
            "max_pool3d_planes",
            "max_pool3d_backward_scatter",
            "avg_pool3d_shifts",
            "avg_pool3d_backward_shifts",
        ],
    )
    # In float32: the stock kernel of the adaptive forward adds in float, and lowering makes
    # float32 of the constants of the response norm.
    check_training(
        [
            Training("adaptive avg", lambda: nn.AdaptiveAvgPool2d((4, 3)), image, plane),
            Training("response norm", lambda: nn.LocalResponseNorm(3), (2, 5, 3, 4)),
        ],
        [
            "adaptive_avg_pool2d_backward_products",
            "constant_pad_nd_slice",
            "avg_pool3d_shifts",
            "avg_pool3d_backward_shifts",
        ],
        dtypes=[torch.float32],
    )
