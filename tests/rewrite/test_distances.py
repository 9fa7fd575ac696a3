from __future__ import annotations

import torch
import torch.nn.functional as F
from harness import Case, Training, check, check_training

NORMS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf"))


def normal(random, *shape):
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def test_cdist():
    def case(p, batch):
        def make(random):
            x, y = normal(random, *batch, 4, 6), normal(random, *batch, 5, 6)
            # A distance of zero, a difference of zero, and equal largest differences.
            y[..., 0, :] = x[..., 1, :]
            y[..., 1, 2] = x[..., 0, 2]
            y[..., 2, :] = x[..., 3, :] + 0.5
            x, y = x.float().double(), y.float().double()
            distance = torch.ops.aten._cdist_forward(x, y, p, None)
            return torch.randn(distance.shape, generator=random).double(), x, y, p, distance

        return Case(f"p={p} batch={batch}", make)

    cases = [case(p, (2,)) for p in NORMS[1:-1]] + [case(2.0, ()), case(1.0, (2, 3))]
    check("aten._cdist_backward.default", cases)


def test_pdist():
    def case(p, count):
        def make(random):
            x = normal(random, count, 6)
            x[1] = x[0]
            x = x.float().double()
            distance = torch.ops.aten._pdist_forward(x, p)
            return torch.randn(distance.shape, generator=random).double(), x, p, distance

        return Case(f"p={p} N={count}", make)

    check("aten._pdist_backward.default", [case(p, 5) for p in NORMS[1:-1]] + [case(2.0, 2)])


def test_training():
    def far(p):
        return lambda: lambda h: torch.cdist(h, h.flip(1) * 2 + 1, p=p)

    def near(p):
        return lambda: lambda h: F.pdist(h, p)

    check_training(
        [Training(f"cdist {p}", far(p), (2, 4, 6)) for p in NORMS[1:]]
        + [Training(f"pdist {p}", near(p), (5, 6)) for p in NORMS[1:]],
        ["cdist_backward", "pdist_backward"],
        dtypes=[torch.float32],
    )
