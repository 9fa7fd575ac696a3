from __future__ import annotations

import torch
from harness import Case, Training, check, check_training
from torch import nn

aten = torch.ops.aten


def randn(random, *shape):
    return torch.randn(shape, generator=random, dtype=torch.float64)


def weight_shape(x, out, kernel, groups, transposed):
    if transposed:
        return (x[1], out // groups, *kernel)
    return (out, x[1] // groups, *kernel)


def forward(x, out, kernel, stride, padding, dilation, transposed, extra, groups, bias=True):
    def make(random):
        weight = randn(random, *weight_shape(x, out, kernel, groups, transposed))
        added = randn(random, out) if bias else None
        rest = stride, padding, dilation, transposed, extra, groups
        return randn(random, *x), weight, added, *rest

    kind = "transposed" if transposed else "plain"
    label = f"{kind} {x} to {out}, k{kernel} s{stride} p{padding} d{dilation} +{extra} g{groups}"
    return Case(label + ("" if bias else " no bias"), make)


def backward(case, mask):
    def make(random):
        x, weight, bias, *rest = case.make(random)
        out = aten.convolution(x, weight, bias, *rest)
        sizes = [out.shape[1]]
        return randn(random, *out.shape), x, weight, sizes, *rest, mask

    return Case(f"{case.label} {mask}", make)


MASKS = [[True, True, True], [False, True, True], [True, False, False], [True, True, False]]
LINES = [
    forward((2, 3, 8), 4, (3,), [1], [0], [1], False, [0], 1),
    forward((2, 4, 9), 6, (3,), [2], [1], [2], False, [0], 2),
    forward((2, 4, 7), 4, (2,), [1], [1], [1], False, [0], 4),
]
LINES_UP = [
    forward((2, 3, 5), 4, (3,), [2], [0], [1], True, [0], 1),
    forward((2, 4, 5), 6, (3,), [2], [1], [2], True, [1], 2),
]
PLANES_UP = [
    forward((2, 3, 4, 5), 4, (3, 3), [1, 1], [0, 0], [1, 1], True, [0, 0], 1),
    forward((2, 4, 3, 5), 6, (3, 2), [2, 3], [1, 0], [1, 2], True, [1, 0], 2),
    forward((2, 4, 4, 3), 4, (2, 2), [2, 2], [0, 0], [1, 1], True, [0, 0], 4, bias=False),
]
BOXES = [
    forward((2, 2, 4, 5, 6), 3, (3, 3, 3), [1, 1, 1], [1, 1, 1], [1, 1, 1], False, [0, 0, 0], 1),
    forward((2, 4, 5, 4, 6), 6, (2, 3, 2), [2, 1, 2], [1, 0, 1], [2, 1, 1], False, [0, 0, 0], 2),
    forward((1, 2, 5, 4, 3), 3, (3, 1, 1), [2, 1, 1], [1, 0, 0], [1, 1, 1], False, [0, 0, 0], 1),
    forward((2, 3, 3, 5, 4), 3, (1, 3, 3), [1, 2, 2], [0, 1, 1], [1, 1, 1], False, [0, 0, 0], 3),
    forward((2, 3, 3, 5, 4), 2, (1, 1, 1), [2, 2, 2], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1),
    forward((2, 2, 7, 4, 4), 2, (2, 2, 2), [4, 2, 2], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1),
]
BOXES_UP = [
    forward((1, 2, 3, 3, 4), 2, (2, 2, 2), [1, 1, 1], [0, 0, 0], [1, 1, 1], True, [0, 0, 0], 1),
    forward((2, 4, 3, 2, 3), 6, (3, 2, 3), [2, 1, 2], [1, 0, 1], [1, 2, 1], True, [1, 0, 1], 2),
    forward((2, 2, 2, 3, 3), 3, (2, 2, 1), [3, 2, 1], [1, 1, 0], [1, 1, 1], True, [2, 1, 0], 1),
]


def test_backward_in_one_dim():
    cases = [backward(case, mask) for case in LINES for mask in MASKS]
    cases += [backward(case, MASKS[0]) for case in LINES_UP]
    check("aten.convolution_backward.default", cases)


def test_backward_transposed_in_two_dims():
    cases = [backward(case, mask) for case in PLANES_UP for mask in MASKS]
    check("aten.convolution_backward.default", cases)


def test_three_dims():
    check("aten.convolution.default", [*BOXES, *BOXES_UP])


def test_backward_in_three_dims():
    cases = [backward(case, MASKS[0]) for case in (*BOXES, *BOXES_UP)]
    cases += [backward(case, mask) for case in (BOXES[1], BOXES_UP[1]) for mask in MASKS[1:]]
    check("aten.convolution_backward.default", cases)


def test_training():
    def line():
        return nn.Conv1d(3, 4, 3, padding=1)

    def plane_up():
        return nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)

    def box():
        return nn.Conv3d(2, 4, 3, padding=1, stride=(1, 2, 1))

    check_training(
        [
            Training("1d", lambda: nn.Conv1d(4, 4, 3, groups=2), (2, 3, 8), line),
            Training("1d up", lambda: nn.ConvTranspose1d(4, 3, 3, stride=2), (2, 3, 5), line),
            Training("2d up", lambda: nn.ConvTranspose2d(4, 2, 2), (2, 3, 3, 4), plane_up),
            Training("3d", lambda: nn.Conv3d(4, 2, (3, 1, 1)), (2, 2, 4, 5, 4), box),
            Training("3d up", lambda: nn.ConvTranspose3d(4, 2, 2, stride=2), (1, 2, 3, 4, 3), box),
            Training("unbatched", lambda: nn.Conv3d(2, 2, 2), (2, 3, 4, 3)),
        ],
        ["convolution_backward_2d", "convolution3d_planes"],
    )
