"""Matrix products of half types, and dropout."""

from __future__ import annotations

import pytest
import torch
from calling import dirty
from drawing import DTYPES, numbers

ADDMM, DROPOUT = "aten::addmm.out", "aten::native_dropout.out"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (7,), (1,), (5, 1), (1, 7), (5, 7)])
def test_addmm(agreement, shape, dtype):
    self, a, b = (numbers(k, *s, dtype=dtype) for k, s in enumerate((shape, (5, 600), (600, 7))))
    wide = [t.double() for t in (self, a, b)]
    for beta, alpha in ((1, 1), (0.5, 2)):
        expected = torch.addmm(*wide, beta=beta, alpha=alpha)
        out = dirty(5, 7, dtype=dtype)
        agreement.check(ADDMM, [self, a, b, beta, alpha], [out], [expected])
    nothing = torch.full_like(self, float("nan"))
    expected = wide[1] @ wide[2]
    agreement.check(ADDMM, [nothing, a, b, 0, 1], [dirty(5, 7, dtype=dtype)], [expected])


def test_addmm_refused(agreement):
    half = torch.ones(2, 3, dtype=torch.float16)
    said = agreement.refuse(ADDMM, [half[0], half, half, 1, 1], [dirty(2, 3, dtype=torch.float16)])
    assert said.endswith("mat1 and mat2 are matrices that can be multiplied")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_dropout(agreement, dtype, p):
    x = numbers(1, 40, 100, dtype=dtype).abs() + 1
    outputs = [dirty(like=x), dirty(like=x, dtype=torch.bool)]
    for kernels in agreement.kernels:
        done = kernels.call(DROPOUT, [x, p, True], outputs)
        result, mask = done.outputs
        assert torch.equal(result != 0, mask)
        # Four standard deviations of a mean of 4000.
        assert abs(float(mask.double().mean()) - (1 - p)) <= 4 * (p * (1 - p) / 4000) ** 0.5
        expected = (x.double() / (1 - p)).to(dtype)
        error = ((result.double() - expected.double()) / expected.double())[mask].abs().max()
        assert float(error) <= torch.finfo(dtype).eps


def test_dropout_that_keeps_all_or_nothing(agreement):
    x = numbers(1, 8, 9)
    outputs = [dirty(like=x), dirty(like=x, dtype=torch.bool)]
    everything = torch.ones(8, 9, dtype=torch.bool)
    agreement.check(DROPOUT, [x, 0.5, False], outputs, [x, everything])
    agreement.check(DROPOUT, [x, 0.0, True], outputs, [x, everything])
    agreement.check(DROPOUT, [x, 1.0, None], outputs, [x * 0, ~everything])
    said = agreement.refuse(DROPOUT, [x, 1.5, True], outputs)
    assert said.endswith("p is between 0 and 1")


def test_a_seed_gives_the_same_draws_again(plain):
    x = torch.ones(1000)
    outputs = [dirty(like=x), dirty(like=x, dtype=torch.bool)]

    def draw():
        return plain.call(DROPOUT, [x, 0.5, True], outputs).outputs[1]

    plain.seed(7)
    first, second = draw(), draw()
    plain.seed(7)
    assert torch.equal(draw(), first)
    assert torch.equal(draw(), second)
    assert not torch.equal(first, second)
    plain.seed(8)
    assert not torch.equal(draw(), first)
