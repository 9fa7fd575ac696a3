from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from harness import Case, Training, check, check_training, generator, resolve

from graphcheck.rewrite.ops.upsample_backward import REWRITES

SIZES = [((5, 4, 3), (7, 3, 6)), ((3, 6, 4), (6, 6, 9)), ((2, 1, 1), (1, 4, 2))]
OPS = sorted(one.op for one in REWRITES if "backward" in one.op)


def randn(random, *shape):
    return torch.randn(shape, generator=random, dtype=torch.float64)


def arguments(op):
    """What the backward takes behind the gradient, for every size, alignment and scale."""
    dims = int(op[op.index("d_") - 1])
    nearest = "nearest" in op
    for inputs, outputs in SIZES:
        for align in (False,) if nearest else (False, True):
            for scale in (None, 1.7):
                size = [max(1, int(n * (scale or 1))) for n in inputs[:dims]]
                size = list(outputs[:dims]) if scale is None else size
                rest = [*([] if nearest else [align]), *[scale] * dims]
                yield size, [2, 3, *inputs[:dims]], *rest


def gradient(random, size, *rest):
    return randn(random, 2, 3, *size), size, *rest


@pytest.mark.parametrize("op", OPS)
def test_formula(op):
    """All sizes in eager, without the runtime."""
    rewrite = next(one for one in REWRITES if one.op == op)
    for rest in arguments(op):
        values = gradient(generator(1), *rest)
        torch.testing.assert_close(rewrite.decompose(*values), resolve(op)(*values))


@pytest.mark.parametrize("op", OPS)
def test_backward(op):
    some = list(arguments(op))
    picked = [some[0], some[len(some) // 2 + 1]]
    check(op, [Case(str(rest), lambda r, rest=rest: gradient(r, *rest)) for rest in picked])


def test_bicubic_antialiased():
    cases = [
        Case(f"{align} {scale}", lambda r, a=align, s=scale: (randn(r, 2, 3, 9, 8), [4, 11], a, s))
        for align, scale in ((False, None), (True, 0.5))
    ]
    check("aten._upsample_bicubic2d_aa.default", cases)


def test_training():
    def resize(**kwargs):
        return lambda: lambda h: F.interpolate(h, antialias=True, **kwargs)

    # In float32: the stock kernel of the bilinear forward computes its weights in float.
    check_training(
        [Training("bilinear", resize(size=(2, 7), mode="bilinear"), (2, 3, 4, 5))],
        ["upsample_bilinear2d_aa_backward_products"],
        dtypes=[torch.float32],
    )
    check_training(
        [Training("bicubic", resize(size=(2, 7), mode="bicubic"), (2, 3, 4, 5))],
        ["upsample_bicubic2d_aa_products", "upsample_bicubic2d_aa_backward_products"],
    )
