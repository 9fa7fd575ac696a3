"""Every exact swap computes the same outputs and gradients as the module it stands for."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import graphcheck
import graphcheck.layers as layers
from graphcheck.opset.swaps import swap_catalogue

DTYPES = (torch.float64, torch.float32)

CASES: list[tuple[str, str, Any, tuple[int, ...]]] = [
    ("conv1d-as-conv2d", "Conv1dAsConv2d", lambda: nn.Conv1d(4, 6, 3), (2, 4, 11)),
    (
        "conv1d-as-conv2d",
        "Conv1dAsConv2d",
        lambda: nn.Conv1d(4, 6, 5, stride=2, padding=3, dilation=2, groups=2, bias=False),
        (3, 4, 17),
    ),
    ("conv1d-as-conv2d", "Conv1dAsConv2d", lambda: nn.Conv1d(4, 6, 4, padding="same"), (2, 4, 9)),
    ("conv1d-as-conv2d", "Conv1dAsConv2d", lambda: nn.Conv1d(4, 6, 3, padding="valid"), (4, 9)),
    (
        "conv1d-as-conv2d",
        "Conv1dAsConv2d",
        lambda: nn.Conv1d(4, 6, 3, padding=2, padding_mode="reflect"),
        (2, 4, 9),
    ),
    ("avg-pool-as-mean", "MeanAvgPool1d", lambda: nn.AvgPool1d(3), (2, 3, 11)),
    ("avg-pool-as-mean", "MeanAvgPool2d", lambda: nn.AvgPool2d(2), (2, 3, 8, 6)),
    ("avg-pool-as-mean", "MeanAvgPool2d", lambda: nn.AvgPool2d((2, 3)), (2, 3, 7, 11)),
    ("avg-pool-as-mean", "MeanAvgPool2d", lambda: nn.AvgPool2d(2), (3, 8, 7)),
    ("avg-pool-as-mean", "MeanAvgPool3d", lambda: nn.AvgPool3d(2), (2, 3, 4, 5, 6)),
    ("avg-pool-as-conv", "ConvAvgPool1d", lambda: nn.AvgPool1d(3, 2, 1), (2, 3, 11)),
    ("avg-pool-as-conv", "ConvAvgPool2d", lambda: nn.AvgPool2d(3, 2, 1), (2, 3, 8, 7)),
    (
        "avg-pool-as-conv",
        "ConvAvgPool2d",
        lambda: nn.AvgPool2d((3, 2), (1, 2), (1, 0), count_include_pad=False),
        (2, 3, 8, 7),
    ),
    (
        "avg-pool-as-conv",
        "ConvAvgPool2d",
        lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False, divisor_override=5),
        (2, 3, 8, 7),
    ),
    (
        "avg-pool-as-conv",
        "ConvAvgPool2d",
        lambda: nn.AvgPool2d(3, 1, 1, count_include_pad=False),
        (3, 8, 7),
    ),
    ("global-pool-as-mean", "GlobalMean1d", lambda: nn.AdaptiveAvgPool1d(1), (2, 3, 7)),
    ("global-pool-as-mean", "GlobalMean2d", lambda: nn.AdaptiveAvgPool2d((1, 1)), (2, 3, 7, 5)),
    ("global-pool-as-mean", "GlobalMean3d", lambda: nn.AdaptiveAvgPool3d(1), (2, 3, 4, 5, 6)),
    ("silu-as-sigmoid", "SigmoidSiLU", lambda: nn.SiLU(), (4, 9)),
    ("pad-as-cat", "CatZeroPad1d", lambda: nn.ZeroPad1d((1, 2)), (2, 3, 5)),
    ("pad-as-cat", "CatZeroPad2d", lambda: nn.ZeroPad2d((1, 2, 0, 3)), (2, 3, 5, 4)),
    ("pad-as-cat", "CatZeroPad2d", lambda: nn.ZeroPad2d((-1, 2, 1, -2)), (2, 3, 6, 5)),
    ("pad-as-cat", "CatZeroPad3d", lambda: nn.ZeroPad3d(1), (2, 3, 2, 3, 4)),
    ("pad-as-cat", "CatConstantPad1d", lambda: nn.ConstantPad1d((0, 2), 1.5), (2, 3, 5)),
    ("pad-as-cat", "CatConstantPad2d", lambda: nn.ConstantPad2d((1, 0, 2, 0), -2.0), (2, 3, 5, 4)),
    ("pad-as-cat", "CatConstantPad3d", lambda: nn.ConstantPad3d(1, 3.0), (2, 3, 2, 3, 4)),
    ("relu-out-of-place", "ReLU", lambda: nn.ReLU(inplace=True), (4, 9)),
    ("relu-out-of-place", "Hardswish", lambda: nn.Hardswish(inplace=True), (4, 9)),
]


class Between(nn.Module):
    """Trainable layers before and after, so that the gradient passes through the module."""

    def __init__(self, layer: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.before = nn.Parameter(torch.randn(shape))
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x * self.before)


def run(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    output = model(x)
    # Distinct upstream gradients of both signs: a plain sum hides faults.
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output.dtype)
    (output * weight).sum().backward()
    return output.detach(), {n: p.grad.clone() for n, p in model.named_parameters()}


def assert_same(old: nn.Module, new: nn.Module, x: torch.Tensor) -> None:
    tolerance = 1e-12 if x.dtype is torch.float64 else 2e-5
    expected, gradients = run(old, x)
    found, found_gradients = run(new, x)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert set(found_gradients) == set(gradients)
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            found_gradients[name], gradient, rtol=tolerance, atol=tolerance, msg=name
        )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("swap", "kind", "make", "shape"), CASES)
def test_same_function(
    swap: str, kind: str, make: Any, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    old = Between(make(), shape).to(dtype)
    x = torch.randn(shape, dtype=dtype)
    new, changes = graphcheck.make_trainable(copy.deepcopy(old), [swap])
    assert [(c.module, c.swap, c.exact, c.done) for c in changes] == [
        ("layer", swap, "exact", True)
    ]
    assert type(new.layer).__name__ == kind
    assert list(new.state_dict()) == list(old.state_dict())
    assert_same(old, new, x)


ATTENTIONS: list[dict[str, Any]] = [
    {},
    {"batch_first": True},
    {"bias": False},
    {"kdim": 6, "vdim": 10},
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("options", ATTENTIONS, ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_module(options: dict[str, Any], need_weights: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    old = nn.MultiheadAttention(8, 2, **options).to(dtype)
    new, changes = graphcheck.make_trainable(copy.deepcopy(old), ["explicit-attention"])
    assert [c.done for c in changes] == [True]
    query = torch.randn(3, 3, 8, dtype=dtype, requires_grad=True)
    key = torch.randn(3, 3, options.get("kdim", 8), dtype=dtype)
    value = torch.randn(3, 3, options.get("vdim", 8), dtype=dtype)
    causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
    padding = torch.tensor([[False, False, True], [False, False, False], [False, True, False]])
    for arguments in (
        {},
        {"attn_mask": causal},
        {"attn_mask": torch.randn(6, 3, 3, dtype=dtype), "average_attn_weights": False},
        {"key_padding_mask": padding},
    ):
        results = []
        for module in (old, new):
            module.zero_grad()
            query.grad = None
            output, weights = module(query, key, value, need_weights=need_weights, **arguments)
            scale = torch.linspace(-1, 2, output.numel(), dtype=dtype).reshape(output.shape)
            (output * scale).sum().backward()
            gradients = [p.grad.clone() for p in module.parameters()]
            results.append([output, query.grad.clone(), *gradients])
            results[-1] += [weights] if need_weights else []
        tolerance = 1e-11 if dtype is torch.float64 else 5e-5
        for expected, found in zip(*results, strict=True):
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_attention_module_unbatched() -> None:
    torch.manual_seed(0)
    old = nn.MultiheadAttention(8, 2).double()
    new = graphcheck.make_trainable(copy.deepcopy(old), ["explicit-attention"]).module
    x = torch.randn(5, 8, dtype=torch.float64)
    for expected, found in zip(old(x, x, x), new(x, x, x), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": torch.randn(5, 5, dtype=torch.float64)},
        {"attn_mask": torch.ones(5, 5, dtype=torch.bool).tril()},
        {"enable_gqa": True},
    ],
    ids=["plain", "causal", "scale", "float mask", "bool mask", "grouped queries"],
)
def test_attention_function(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    heads = 2 if options.get("enable_gqa") else 4
    q = torch.randn(2, 4, 5, 3, dtype=torch.float64, requires_grad=True)
    k = torch.randn(2, heads, 5, 3, dtype=torch.float64, requires_grad=True)
    v = torch.randn(2, heads, 5, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 4, 5, 3, dtype=torch.float64)
    results = []
    for function in (nn.functional.scaled_dot_product_attention, layers.explicit_attention):
        output = function(q, k, v, **options)
        results.append([output, *torch.autograd.grad((output * weight).sum(), (q, k, v))])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("kind", "shape", "drawn"),
    [
        (nn.Dropout, (50, 40), 2000),
        (nn.Dropout1d, (50, 40, 3), 2000),
        (nn.Dropout2d, (50, 40, 3, 2), 2000),
        (nn.Dropout3d, (50, 40, 3, 2, 2), 2000),
    ],
)
@pytest.mark.parametrize("p", [0.2, 0.5])
def test_dropout_draws_what_torch_draws(kind: Any, shape: Any, drawn: int, p: float) -> None:
    torch.manual_seed(0)
    old = kind(p)
    new = graphcheck.make_trainable(copy.deepcopy(old), ["dropout-as-mask"]).module
    for module in (old, new):
        output = module(torch.ones(shape))
        if len(shape) > 2:
            output = output.flatten(2)
            # Whole channels, as torch drops them.
            assert (output == output[..., :1]).all()
            output = output[..., 0]
        assert output.numel() == drawn
        assert output.unique().tolist() == [0.0, pytest.approx(1 / (1 - p))]
        # Five standard deviations of the share of survivors.
        share = (output > 0).float().mean().item()
        assert abs(share - (1 - p)) < 5 * (p * (1 - p) / drawn) ** 0.5
    new.eval()
    assert new(torch.ones(3)).tolist() == [1, 1, 1]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 6)
        self.out = nn.Linear(6, 9)
        self.out.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.embed(ids)))


def test_tied_weights_get_one_name() -> None:
    torch.manual_seed(0)
    old = Tied().double()
    new, changes = graphcheck.make_trainable(copy.deepcopy(old), ["tied-weights-as-reuse"])
    assert [str(c) for c in changes] == [
        "out: tied-weights-as-reuse (exact): uses embed.weight; out.weight leaves the state dict"
    ]
    assert list(new.state_dict()) == ["embed.weight", "out.bias"]
    ids = torch.randint(0, 9, (3, 4))
    expected, gradients = run(old, ids)
    found, found_gradients = run(new, ids)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found_gradients, gradients)


def test_every_exact_swap_has_a_case() -> None:
    tested = {case[0] for case in CASES}
    tested |= {"explicit-attention", "dropout-as-mask", "tied-weights-as-reuse"}
    assert tested == {e.name for e in swap_catalogue().values() if e.exact}
