"""Kernels that move values: padding, sorting, scattering, the gradient of an embedding."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from calling import dirty
from drawing import DTYPES, SWEEP, laid_out, numbers, seeds
from hypothesis import given
from hypothesis import strategies as st

PAD = "aten::constant_pad_nd.out"
SORT = "aten::sort.values"
STABLE = "aten::sort.values_stable"
REDUCE = "aten::scatter_reduce.two_out"
EMBEDDING = "aten::embedding_dense_backward.out"
PUT = "aten::index_put.out"
dtypes = st.sampled_from(DTYPES)


def _integers(seed, low, high, shape):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


@SWEEP
@given(st.integers(1, 5), dtypes, st.booleans(), seeds, st.data())
def test_pad(agreement, rank, dtype, last, seed, data):
    shape = [data.draw(st.integers(1, 5)) for _ in range(rank)]
    pad = [data.draw(st.integers(-3, 3)) for _ in range(2 * data.draw(st.integers(1, rank)))]
    x = laid_out(numbers(seed, *shape, dtype=dtype), last)
    try:
        expected = F.pad(x, pad, value=1.5)
    except RuntimeError:
        said = agreement.refuse(PAD, [x, pad, 1.5], [dirty(like=x)])
        assert said.endswith("no more is cropped than there is")
        return
    # Without a crop a row-major call is the runtime's own, which refuses what is channels-last.
    agreement.check(PAD, [x, pad, 1.5], [dirty(like=expected)], [expected])


def test_pad_of_integers(agreement):
    x = torch.arange(12).reshape(3, 4)
    agreement.check(
        PAD, [x, [-1, 2], 7], [dirty(3, 5, dtype=torch.int64)], [F.pad(x, [-1, 2], value=7)]
    )


@SWEEP
@given(st.integers(1, 4), dtypes, st.booleans(), seeds)
def test_sort(agreement, rank, dtype, descending, seed):
    shape, dim = [3, 5, 2, 17][-rank:], seed % (2 * rank) - rank
    # Many ties, some NaN.
    x = numbers(seed, *shape, dtype=dtype).mul(3).round()
    x[numbers(seed + 1, *shape) > 1.5] = float("nan")
    expected = torch.sort(x, dim=dim, descending=descending, stable=True)
    outputs = [dirty(like=x), dirty(like=x, dtype=torch.int64)]
    agreement.check(SORT, [x, dim, descending], outputs, expected)
    agreement.check(STABLE, [x, True, dim, descending], outputs, expected)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_sort_of_integers(agreement, dtype):
    x = _integers(3, 0, 2 if dtype == torch.bool else 9, (4, 6)).to(dtype)
    outputs = [dirty(like=x), dirty(like=x, dtype=torch.int64)]
    agreement.check(SORT, [x, 1, False], outputs, torch.sort(x, dim=1, stable=True))


@SWEEP
@given(
    st.sampled_from((*DTYPES, torch.int64)),
    st.sampled_from(("sum", "prod", "mean", "amax", "amin")),
    st.booleans(),
    st.integers(0, 2),
    seeds,
)
def test_scatter_reduce(agreement, dtype, reduce, include, dim, seed):
    x = numbers(seed, 3, 4, 5).mul(4).to(dtype)
    source = numbers(seed + 1, 3, 4, 5).mul(4).to(dtype)
    index = _integers(seed, 0, x.shape[dim], (2, 3, 5))
    wide = torch.int64 if dtype == torch.int64 else torch.float64
    expected = x.to(wide).scatter_reduce(dim, index, source.to(wide), reduce, include_self=include)
    inputs = [x, dim, index, source, reduce, include]
    agreement.check(REDUCE, inputs, [dirty(like=x)], [expected], scale=4)


@SWEEP
@given(dtypes, st.booleans(), st.integers(-1, 6), seeds)
def test_embedding(agreement, dtype, scaled, padding, seed):
    indices = _integers(seed, 0, 7, ((40,), (5, 8), ())[seed % 3])
    gradient = numbers(seed, *indices.shape, 3, dtype=dtype)
    rest = [7, padding, scaled]
    expected = torch.ops.aten.embedding_dense_backward(gradient.double(), indices, *rest)
    agreement.check(
        EMBEDDING, [gradient, indices, *rest], [dirty(7, 3, dtype=dtype)], [expected], scale=2
    )


CASES = (
    (((3, 50), None, None), (3, 50, 5, 6)),
    (((3, 50), None, None), (6,)),
    ((None, (3, 1), None), (4, 3, 1, 6)),
    (((50,), None, (50,)), (50, 5)),
    (((3, 50), (3, 1), (50,)), ()),
    ((None, (3, 1), (50,)), (1, 3, 50)),
)


@pytest.mark.parametrize(("shapes", "values"), CASES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_index_put_adds_up_in_float(agreement, shapes, values, dtype):
    x, v = numbers(1, 4, 5, 6, dtype=dtype), numbers(2, *values, dtype=dtype)
    indices = [
        None if shape is None else _integers(k, -size, size, shape)
        for k, (shape, size) in enumerate(zip(shapes, x.shape, strict=True))
    ]
    expected = torch.ops.aten.index_put(x.double(), indices, v.double(), True)
    agreement.check(PUT, [x, indices, v, True], [dirty(like=x)], [expected])


def test_refused(agreement):
    x = torch.ones(3, 4)
    index = torch.full((3, 4), 4)
    said = agreement.refuse(REDUCE, [x, 1, index, x, "sum", True], [dirty(like=x)])
    assert said.endswith("every index is inside of self along dim")
    said = agreement.refuse(REDUCE, [x, 1, index, x, "median", True], [dirty(like=x)])
    assert said.endswith("reduce is sum, prod, mean, amax or amin")
    said = agreement.refuse(SORT, [x, 2, False], [dirty(like=x), dirty(like=x, dtype=torch.int64)])
    assert said.endswith("dim is one of self's")
    rows = torch.tensor([0, 5])
    said = agreement.refuse(EMBEDDING, [torch.ones(2, 3), rows, 5, -1, False], [dirty(5, 3)])
    assert said.endswith("every index is a row of the table")
    half = torch.ones(2, dtype=torch.float16)
    said = agreement.refuse(PUT, [half, [torch.tensor([2])], half[:1], True], [dirty(like=half)])
    assert said.endswith("every index is inside of its dim")
