"""Convolutions and their gradients equal double precision to a few roundings."""

from __future__ import annotations

import pytest
import torch
from calling import dirty
from drawing import DTYPES, SWEEP, laid_out, numbers, seeds
from hypothesis import given, settings
from hypothesis import strategies as st

FORWARD, BACKWARD = "aten::convolution.out", "aten::convolution_backward.out"
NOTHING = torch.empty(0, dtype=torch.uint8)


@st.composite
def convolutions(draw):
    """Input, weight, bias and the other arguments of a convolution that eager takes."""
    dims = draw(st.integers(1, 3))

    def each(low, high):
        return [draw(st.integers(low, high)) for _ in range(dims)]

    groups, transposed = draw(st.sampled_from((1, 1, 2, 3))), draw(st.booleans())
    channels, outputs = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    kernel, stride, padding, dilation = each(1, 3), each(1, 3), each(0, 2), each(1, 2)
    more = [0] * dims
    if transposed:
        more = [draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)]
    sizes = each(5, 16 if dims == 2 else 8)
    dtype, seed = draw(st.sampled_from(DTYPES)), draw(seeds)
    shape = (channels, outputs // groups) if transposed else (outputs, channels // groups)
    x = numbers(seed, draw(st.integers(1, 3)), channels, *sizes, dtype=dtype)
    w = numbers(seed + 1, *shape, *kernel, dtype=dtype)
    b = numbers(seed + 2, outputs, dtype=dtype) if draw(st.booleans()) else None
    x, w = laid_out(x, draw(st.booleans())), laid_out(w, draw(st.booleans()))
    return x, w, b, [stride, padding, dilation, transposed, more, groups]


def _check(kernels, convolution, mask, seed, *, everything):
    x, w, b, rest = convolution
    wide = [None if t is None else t.double() for t in (x, w, b)]
    try:
        truth = torch.ops.aten.convolution(*wide, *rest)
    except RuntimeError:
        return
    # The runtime has no channels-last convolution in one dim, and has it right in one and two.
    if everything or x.dim() != 3 or x.dtype in (torch.float16, torch.bfloat16):
        out = dirty(*truth.shape, dtype=x.dtype)
        kernels.check(FORWARD, [x, w, b, *rest], [out], [truth])
    gradient = numbers(seed, *truth.shape, dtype=x.dtype)
    sizes = [truth.shape[1]]
    results = torch.ops.aten.convolution_backward(
        gradient.double(), wide[0], wide[1], sizes, *rest, [True] * 3
    )
    expected = [result if keep else None for result, keep in zip(results, mask, strict=True)]
    shapes = (x, w, torch.empty(sizes, dtype=x.dtype))
    outputs = [dirty(like=t) if keep else NOTHING for t, keep in zip(shapes, mask, strict=True)]
    kernels.check(BACKWARD, [gradient, x, w, sizes, *rest, list(mask)], outputs, expected, scale=2)


@SWEEP
@given(convolutions(), st.tuples(st.booleans(), st.booleans(), st.booleans()), seeds)
def test_what_the_runtime_refuses(agreement, convolution, mask, seed):
    _check(agreement, convolution, mask, seed, everything=False)


@SWEEP
@given(convolutions(), st.tuples(st.booleans(), st.booleans(), st.booleans()), seeds)
def test_fast(fast, convolution, mask, seed):
    _check(fast, convolution, mask, seed, everything=True)


@pytest.mark.parametrize(
    "size", [(2, 64, 64, 3, 1, 14), (3, 130, 100, 1, 2, 9), (2, 3, 70, 7, 2, 40)]
)
def test_fast_on_sizes_that_take_several_blocks(fast, size):
    batch, channels, outputs, kernel, stride, side = size
    x = numbers(1, batch, channels, side, side)
    w = numbers(2, outputs, channels, kernel, kernel)
    rest = [[stride] * 2, [kernel // 2] * 2, [1, 1], False, [0, 0], 1]
    _check(fast, (x, w, numbers(3, outputs), rest), (True, True, True), 4, everything=True)


@settings(SWEEP, max_examples=25)
@given(convolutions(), st.tuples(st.booleans(), st.booleans(), st.booleans()), seeds)
def test_fast_on_five_threads(threaded, convolution, mask, seed):
    _check(threaded, convolution, mask, seed, everything=True)


@pytest.mark.parametrize("groups", [1, 2])
def test_several_blocks_on_five_threads(threaded, groups):
    """Work is shared out, and sums of threads are added in one order: twice gives the same bits."""
    x, w = numbers(1, 3, 64, 24, 24), numbers(2, 48, 64 // groups, 3, 3)
    rest = [[1, 1], [1, 1], [1, 1], False, [0, 0], groups]
    before = threaded.kernels[0].said().count("threads: 5")
    _check(threaded, (x, w, numbers(3, 48), rest), (True, True, True), 4, everything=True)
    assert threaded.kernels[0].said().count("threads: 5") > before
    gradient = numbers(4, 3, 48, 24, 24)
    inputs = [gradient, x, w, [48], *rest, [True, True, True]]
    outputs = [dirty(like=x), dirty(like=w), dirty(48, dtype=x.dtype)]
    once, again = (threaded.call(BACKWARD, inputs, outputs) for _ in range(2))
    for one, other in zip(once.outputs, again.outputs, strict=True):
        assert torch.equal(one, other)


def test_half_types_are_summed_in_float(agreement):
    """A sum of 2048 ones in bfloat16 stops at 256."""
    ones = torch.ones(1, 2048, 1, 1, dtype=torch.bfloat16)
    rest = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    out = dirty(1, 1, 1, 1, dtype=torch.bfloat16)
    agreement.check(FORWARD, [ones, ones, None, *rest], [out], [torch.full((1, 1, 1, 1), 2048.0)])
    stock = agreement.call(FORWARD, [ones, ones, None, *rest], [out], fallback=True)
    assert float(stock.outputs[0]) < 1000


def test_what_is_right_stays_the_runtimes_own(plain):
    """Row-major float convolutions give the same bits with the library and without."""
    x, w, g = numbers(1, 2, 3, 9, 9), numbers(2, 4, 3, 3, 3), numbers(3, 2, 4, 7, 7)
    rest = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    for op, inputs, outputs in (
        (FORWARD, [x, w, None, *rest], [dirty(like=g)]),
        (
            BACKWARD,
            [g, x, w, [4], *rest, [True, True, False]],
            [dirty(like=x), dirty(like=w), NOTHING],
        ),
    ):
        ours = plain.call(op, inputs, outputs)
        stock = plain.call(op, inputs, outputs, fallback=True)
        assert (ours.code, stock.code) == (0, 0)
        for one, other in zip(ours.outputs[:2], stock.outputs[:2], strict=False):
            assert torch.equal(one, other)


def test_refused(fast):
    x, w = torch.ones(1, 2, 4, 4), torch.ones(2, 2, 3, 3)
    rest = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    out = [dirty(1, 2, 2, 2)]
    said = fast.refuse(FORWARD, [x, torch.ones(2, 3, 3, 3), None, *rest], out)
    assert said.endswith("weight fits the channels of input and the groups")
    said = fast.refuse(FORWARD, [x, w, None, [0, 1], *rest[1:]], out)
    assert said.endswith("stride, dilation and kernel are above zero")
    said = fast.refuse(FORWARD, [x, w, torch.ones(3), *rest], out)
    assert said.endswith("bias has one value for each channel")
    said = fast.refuse(FORWARD, [x, torch.ones(2, 2, 5, 5), None, *rest], out)
    assert said.endswith("the kernel fits into the padded input")
    outs = [dirty(like=x), dirty(like=w), NOTHING]
    mask = [True, True, False]
    said = fast.refuse(BACKWARD, [torch.ones(1, 2, 3, 2), x, w, None, *rest, mask], outs)
    assert said.endswith("grad_output has the shape that the convolution gives")
