"""Gradients of pooling equal eager's, for every window, layout and dtype."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from calling import dirty
from drawing import DTYPES, SWEEP, laid_out, numbers, seeds
from hypothesis import given
from hypothesis import strategies as st

MAX = "aten::max_pool2d_with_indices_backward.grad_input"
AVG = "aten::avg_pool2d_backward.grad_input"
ADAPTIVE = "aten::_adaptive_avg_pool2d_backward.out"
pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


@st.composite
def images(draw):
    shape = [draw(st.integers(1, 3)), draw(st.integers(3, 9)), draw(st.integers(3, 9))]
    if draw(st.booleans()):
        shape.insert(0, draw(st.integers(1, 3)))
    image = numbers(draw(seeds), *shape, dtype=draw(st.sampled_from(DTYPES)))
    # Ties, and a NaN now and then.
    if draw(st.booleans()):
        image = image.round()
    return laid_out(image, draw(st.booleans()))


@SWEEP
@given(images(), pairs, pairs, pairs, st.booleans(), st.booleans(), seeds)
def test_max_pool(agreement, image, kernel, stride, dilation, padded, ceil, seed):
    padding = [k // 2 if padded else 0 for k in kernel]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(
        size + 2 * pad < r for size, pad, r in zip(image.shape[-2:], padding, reach, strict=True)
    ):
        return
    result, indices = F.max_pool2d(
        image, kernel, stride, padding, dilation, ceil, return_indices=True
    )
    gradient = numbers(seed, *result.shape, dtype=image.dtype)
    windows = [list(kernel), list(stride), padding, list(dilation), ceil]
    # Summed in double: eager rounds half types after every addition.
    expected = torch.ops.aten.max_pool2d_with_indices_backward(
        gradient.double(), image.double(), *windows, indices
    )
    for given_gradient in (gradient, laid_out(gradient, True)):
        arguments = [given_gradient, image, *windows, indices]
        agreement.check(MAX, arguments, [dirty(like=image)], [expected])


WINDOWS = (
    # kernel, stride, padding: windows side by side, overlapping, and with gaps between them.
    (2, 2, 0),
    (2, 2, 1),
    (3, 2, 1),
    (3, 1, 1),
    (3, 3, 0),
    (2, 3, 0),
)


@SWEEP
@given(
    st.integers(1, 3),
    st.integers(7, 60),
    st.integers(7, 60),
    st.sampled_from(WINDOWS),
    st.sampled_from(DTYPES),
    st.sampled_from(("pooling's", "any in the plane")),
    seeds,
)
def test_max_pool_of_large_planes(agreement, count, height, width, window, dtype, which, seed):
    """Planes that are cleared in pieces, and indices that no pooling gives: they add up, too."""
    image = numbers(seed, 2, count, height, width, dtype=dtype)
    windows = [[window[0]], [window[1]], [window[2]], [1], seed % 2 == 0]
    result, indices = F.max_pool2d(
        image, *(w[0] for w in windows[:4]), windows[4], return_indices=True
    )
    gradient = numbers(seed, *result.shape, dtype=dtype)
    if which == "any in the plane":
        draw = torch.Generator().manual_seed(seed)
        planes, cells = 2 * count, result.shape[-2] * result.shape[-1]
        if dtype in (torch.float16, torch.bfloat16):
            # Summed in float only where windows overlap, so that no cell comes twice.
            drawn = [torch.randperm(height * width, generator=draw)[:cells] for _ in range(planes)]
            indices = torch.stack(drawn).reshape(result.shape)
        else:
            indices = torch.randint(0, height * width, result.shape, generator=draw)
    expected = torch.ops.aten.max_pool2d_with_indices_backward(
        gradient.double(), image.double(), *windows, indices
    )
    agreement.check(MAX, [gradient, image, *windows, indices], [dirty(like=image)], [expected])


def test_an_index_outside_of_a_large_plane(agreement):
    image, gradient = torch.ones(1, 2, 32, 32), torch.ones(1, 2, 16, 16)
    windows = [[2, 2], [2, 2], [0, 0], [1, 1], False]
    for plane, row, column in ((0, 0, 0), (0, 15, 15), (1, 7, 3), (1, 15, 15)):
        for value in (-1, 1024, 2**32, -(2**62)):
            indices = F.max_pool2d(image, 2, return_indices=True)[1]
            indices[0, plane, row, column] = value
            arguments = [gradient, image, *windows, indices]
            said = agreement.refuse(MAX, arguments, [dirty(like=image)])
            assert said.endswith("every index is inside of the plane")


@SWEEP
@given(images(), pairs, pairs, st.booleans(), st.booleans(), st.booleans(), seeds)
def test_avg_pool(agreement, image, kernel, stride, padded, ceil, count_pad, seed):
    padding = [k // 2 if padded else 0 for k in kernel]
    divisor = 7 if seed % 3 == 0 else None
    windows = [list(kernel), list(stride), padding, ceil, count_pad, divisor]
    result = F.avg_pool2d(image, *windows)
    gradient = numbers(seed, *result.shape, dtype=image.dtype)
    expected = torch.ops.aten.avg_pool2d_backward(gradient.double(), image.double(), *windows)
    agreement.check(AVG, [gradient, image, *windows], [dirty(like=image)], [expected])


@SWEEP
@given(images(), st.integers(1, 12), st.integers(1, 12), seeds)
def test_adaptive_pool(agreement, image, height, width, seed):
    gradient = numbers(seed, *image.shape[:-2], height, width, dtype=image.dtype)
    expected = torch.ops.aten._adaptive_avg_pool2d_backward(gradient.double(), image.double())
    agreement.check(ADAPTIVE, [gradient, image], [dirty(like=image)], [expected])


def test_the_stock_kernel_adds_to_what_is_there(agreement):
    """What these tests are for: a kernel that does not clear its output fails them."""
    image = numbers(1, 1, 2, 4, 4)
    result, indices = F.max_pool2d(image, 2, return_indices=True)
    arguments = [torch.ones_like(result), image, [2], [2], [0], [1], False, indices]
    stock = agreement.call(MAX, arguments, [dirty(like=image)], fallback=True)
    assert bool(stock.outputs[0].isnan().all())


def test_the_sanitizers_watch(agreement, sanitized):
    """The second build is what its name says."""
    assert agreement.kernels[1] is sanitized
    assert "libasan" in sanitized.maps()
    assert "libubsan" in sanitized.maps()


def test_refused(agreement):
    image, gradient = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2)
    indices = torch.zeros(1, 1, 2, 2, dtype=torch.long)
    windows = [[2, 2], [2, 2], [0, 0], [1, 1], False]
    out = [dirty(like=image)]
    said = agreement.refuse(MAX, [gradient, image, *windows, indices + 16], out)
    assert said.endswith("every index is inside of the plane")
    said = agreement.refuse(MAX, [gradient, image, *windows, indices - 1], out)
    assert said.endswith("every index is inside of the plane")
    said = agreement.refuse(MAX, [gradient, image, *windows, indices], [dirty(1, 1, 4, 3)])
    assert said.endswith("the output cannot take the shape of the result")
    wide = torch.ones(1, 1, 3, 2)
    said = agreement.refuse(MAX, [wide, image, *windows, torch.zeros_like(wide).long()], out)
    assert said.endswith("grad_output has the shape that pooling gives")
    windows = [[2, 2], [2, 2], [0, 0], False, True]
    said = agreement.refuse(AVG, [gradient, image, *windows, 0], out)
    assert said.endswith("divisor_override is not zero")
    said = agreement.refuse(AVG, [gradient, image, [2, 2, 2], [], [0], False, True, None], out)
    assert said.endswith("kernel_size holds one or two values")
    said = agreement.refuse(ADAPTIVE, [gradient.double(), image], out)
    assert said.endswith("grad_output, self and out share a dtype")
