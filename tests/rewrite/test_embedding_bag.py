from __future__ import annotations

import itertools

import torch
from harness import Training, check_training
from torch import nn


def normal(random, *shape):
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def settings():
    for mode, padding, last in itertools.product((0, 1, 2), (-1, 2), (False, True)):
        yield mode, padding, last, False
    yield 0, -1, False, True
    yield 0, 2, True, True


def label(mode, padding, last, weighted):
    return f"{('sum', 'mean', 'max')[mode]} padding={padding} last={last} weights={weighted}"


class Bag(nn.Module):
    """The results that gradients are made of; the others differ between torch's own kernels."""

    def __init__(self, mode, padding, last, weighted):
        super().__init__()
        self.options = {"mode": mode, "padding_idx": padding, "include_last_offset": last}
        self.weighted = weighted
        self.table = nn.Parameter(torch.randn(6, 3))

    def forward(self, h, indices, offsets):
        name = ("sum", "mean", "max")[self.options["mode"]]
        padding = self.options["padding_idx"]
        return torch.nn.functional.embedding_bag(
            indices,
            self.table * 2,
            offsets,
            mode=name,
            per_sample_weights=h[0] if self.weighted else None,
            include_last_offset=self.options["include_last_offset"],
            padding_idx=None if padding < 0 else padding,
        ), h


def test_bags():
    cases = []
    for one in settings():

        def extra(random, last=one[2]):
            # The bags differ between the two data sets of the harness.
            shift = int(torch.randint(0, 2, (1,), generator=random))
            inner = [2, 2, 5] if shift else [0, 3, 7]
            offsets = torch.tensor([0, *inner, 7] if last else [0, *inner])
            return torch.randint(0, 6, (7,), generator=random), offsets

        cases.append(Training(label(*one), lambda one=one: Bag(*one), (2, 7), extra=extra))
    check_training(
        cases,
        ["embedding_bag", "embedding_bag_backward", "embedding_bag_weights_backward"],
        dtypes=[torch.float32],
    )


def test_training():
    def tokens(random):
        return torch.randint(0, 10, (3, 5), generator=random)

    check_training(
        [
            Training(
                mode,
                lambda: lambda h: h * h,
                tokens,
                lambda mode=mode: nn.EmbeddingBag(10, 6, mode=mode),
            )
            for mode in ("sum", "mean", "max")
        ]
        + [
            Training(
                "by frequency",
                lambda: lambda h: h * h,
                tokens,
                lambda: nn.EmbeddingBag(10, 6, mode="sum", scale_grad_by_freq=True),
            )
        ],
        ["embedding_bag", "embedding_bag_backward"],
    )


def test_embedding_backward():
    """The joint export takes this op apart already; the rewrite serves other graphs."""
    from graphcheck.rewrite.ops.embedding_dense_backward import embedding_dense_backward

    random = torch.Generator().manual_seed(1)
    grad = normal(random, 2, 3, 4)
    indices = torch.tensor([[1, 2, 2], [0, 1, 1]])
    for padding, frequency in itertools.product((-1, 2), (False, True)):
        have = embedding_dense_backward(grad, indices, 5, padding, frequency)
        want = torch.ops.aten.embedding_dense_backward(grad, indices, 5, padding, frequency)
        torch.testing.assert_close(have, want)


def test_first_of_equal_maxima():
    """Of equal rows the first gets the gradient, as in eager."""
    from graphcheck.rewrite.ops.embedding_bag import forward

    table = torch.tensor([[1.0, 2.0], [1.0, 2.0], [0.0, 3.0]])
    have = forward(table, torch.tensor([1, 0, 2]), torch.tensor([0]), mode=2)
    want = torch.ops.aten._embedding_bag(table, torch.tensor([1, 0, 2]), torch.tensor([0]), mode=2)
    assert torch.equal(have[3], want[3])
    assert torch.equal(have[0], want[0])
