"""Fake quantisation: to the bit as eager has it, halves included."""

import torch
from harness import Case, Training, check, check_training

from graphcheck.rewrite.ops import fake_quantize

SINGLE = (torch.float32,)
CHANNELS = torch.tensor([0.02, 0.1, 0.37, 1.0])
ZEROS = torch.tensor([0, 3, -2, 1], dtype=torch.int32)


def values() -> torch.Tensor:
    """Off and on the halves between two steps, and far out of range."""
    random = torch.Generator().manual_seed(0)
    halves = (torch.arange(-400, 400) + 0.5) * 0.1
    return torch.cat([halves, torch.randn(3200, generator=random) * 20]).view(4, 1000)


def test_to_the_bit() -> None:
    x = values()
    aten = torch.ops.aten
    for ours, eager, arguments in (
        (
            fake_quantize.per_tensor,
            aten.fake_quantize_per_tensor_affine_cachemask,
            (0.1, 5, -128, 127),
        ),
        (
            fake_quantize.per_channel,
            aten.fake_quantize_per_channel_affine_cachemask,
            (CHANNELS, ZEROS, 0, -8, 7),
        ),
        *(
            (
                fake_quantize.per_tensor_of_tensors,
                aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams,
                (torch.tensor([0.1]), torch.tensor([5]), torch.tensor([on]), 0, 255),
            )
            for on in (0, 1)
        ),
    ):
        for got, want in zip(ours(x, *arguments), eager(x, *arguments), strict=True):
            assert got.dtype == want.dtype
            assert torch.equal(got, want)


def test_in_the_runtime() -> None:
    x = values()[:, :60]
    check(
        "aten.fake_quantize_per_tensor_affine_cachemask.default",
        [
            Case("signed", lambda r: (x, 0.1, 5, -128, 127)),
            Case("4 bit", lambda r: (x, 0.5, 0, 0, 15)),
        ],
        dtypes=SINGLE,
    )


def test_the_gradient_passes_where_it_is_in_range() -> None:
    check_training(
        [
            Training(
                "tensor",
                lambda: lambda x: torch.fake_quantize_per_tensor_affine(x, 0.2, 1, -4, 5),
                (4, 6),
            ),
            Training(
                "channels",
                lambda: (
                    lambda x: torch.fake_quantize_per_channel_affine(x, CHANNELS, ZEROS, 0, -8, 7)
                ),
                (4, 6),
            ),
        ],
        ["fake_quantize_per_tensor", "fake_quantize_per_channel"],
        dtypes=SINGLE,
    )
