from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from harness import Case, Training, check, check_training

from graphcheck.rewrite.ops.upsample_backward import REWRITES

SIZES = [((5, 4, 3), (7, 3, 6)), ((3, 6, 4), (6, 6, 9)), ((2, 1, 1), (1, 4, 2))]
OPS = sorted(one.op for one in REWRITES if "backward" in one.op)


def randn(random, *shape):
    return torch.randn(shape, generator=random, dtype=torch.float64)


@pytest.mark.parametrize("op", OPS)
def test_backward(op):
    dims = int(op[op.index("d_") - 1])
    nearest = "nearest" in op
    cases = []
    for inputs, outputs in SIZES:
        for align in (False,) if nearest else (False, True):
            for scale in (None, 1.7):
                source = [2, 3, *inputs[:dims]]
                if scale is None:
                    size = list(outputs[:dims])
                else:
                    size = [max(1, int(n * scale)) for n in inputs[:dims]]
                rest = [*([] if nearest else [align]), *[scale] * dims]
                cases.append(
                    Case(
                        f"{source} to {size} {rest}",
                        lambda r, o=size, i=source, a=rest: (randn(r, 2, 3, *o), o, i, *a),
                    )
                )
    check(op, cases)


def test_bicubic_antialiased():
    cases = [
        Case(f"{align} {scale}", lambda r, a=align, s=scale: (randn(r, 2, 3, 9, 8), [4, 11], a, s))
        for align in (False, True)
        for scale in (None, 0.5)
    ]
    check("aten._upsample_bicubic2d_aa.default", cases)


def test_training():
    def resize(**kwargs):
        return lambda: lambda h: F.interpolate(h, antialias=True, **kwargs)

    check_training(
        [
            Training("bilinear", resize(size=(2, 7), mode="bilinear"), (2, 3, 4, 5)),
            Training("bicubic", resize(size=(2, 7), mode="bicubic"), (2, 3, 4, 5)),
        ],
        [
            "upsample_bilinear2d_aa_backward_products",
            "upsample_bicubic2d_aa_products",
            "upsample_bicubic2d_aa_backward_products",
        ],
    )
