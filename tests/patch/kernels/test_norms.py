"""Normalisation equals eager's, and does not lose the variance of numbers far from zero."""

from __future__ import annotations

import pytest
import torch
from calling import dirty
from drawing import DTYPES, SWEEP, laid_out, numbers, seeds
from hypothesis import given
from hypothesis import strategies as st

GROUP = "aten::native_group_norm.out"
LAYER = "aten::native_layer_norm.out"
BATCH = "aten::_native_batch_norm_legit.no_stats_out"
affines = st.sampled_from(("none", "weight", "both"))


def _affine(kind, shape, dtype, seed):
    weight = numbers(seed, *shape, dtype=dtype) if kind != "none" else None
    bias = numbers(seed + 1, *shape, dtype=dtype) if kind == "both" else None
    return weight, bias


def _wide(*tensors):
    return [None if t is None else t.double() for t in tensors]


dtypes = st.sampled_from(DTYPES)


@SWEEP
@given(st.integers(1, 3), st.integers(1, 3), dtypes, affines, st.booleans(), seeds)
def test_group_norm(agreement, groups, wide, dtype, affine, last, seed):
    channels, plane = groups * wide, [[], [7], [5, 3], [2, 3, 4]][seed % 4]
    x = laid_out(numbers(seed, 2, channels, *plane, dtype=dtype), last)
    pair = _affine(affine, (channels,), dtype, seed)
    sizes = [2, channels, x.numel() // (2 * channels), groups, 1e-5]
    expected = torch.native_group_norm(*_wide(x, *pair), *sizes)
    outputs = [dirty(like=x), dirty(2, groups, dtype=dtype), dirty(2, groups, dtype=dtype)]
    # One value in a group: its distance from the mean is zero, and so is the result.
    if sizes[2] * wide > 1:
        agreement.check(GROUP, [x, *pair, *sizes], outputs, expected, scale=4)


@SWEEP
@given(st.integers(1, 4), st.integers(1, 3), dtypes, affines, seeds)
def test_layer_norm(agreement, rank, inner, dtype, affine, seed):
    inner = min(inner, rank)
    shape = [2, 3, 4, 5][:rank]
    x = numbers(seed, *shape, dtype=dtype)
    pair = _affine(affine, shape[-inner:], dtype, seed)
    expected = torch.native_layer_norm(x.double(), shape[-inner:], *_wide(*pair), 1e-5)
    outputs = [dirty(like=x), *(dirty(*expected[1].shape, dtype=dtype) for _ in range(2))]
    agreement.check(LAYER, [x, shape[-inner:], *pair, 1e-5], outputs, expected, scale=4)


@SWEEP
@given(st.integers(1, 4), dtypes, affines, st.booleans(), seeds)
def test_batch_norm(agreement, channels, dtype, affine, last, seed):
    plane = [[], [7], [5, 3], [2, 3, 4]][seed % 4]
    x = laid_out(numbers(seed, 3, channels, *plane, dtype=dtype), last)
    pair = _affine(affine, (channels,), dtype, seed)
    expected = torch._native_batch_norm_legit(*_wide(x, *pair), True, 0.1, 1e-5)
    outputs = [dirty(like=x), dirty(channels, dtype=dtype), dirty(channels, dtype=dtype)]
    agreement.check(BATCH, [x, *pair, True, 0.1, 1e-5], outputs, expected, scale=4)


FORWARD = "graphcheck::batch_norm_training.out"
BACKWARD = "graphcheck::batch_norm_training_backward.out"


@SWEEP
@given(st.integers(1, 4), dtypes, affines, st.booleans(), seeds)
def test_batch_norm_in_training(agreement, channels, dtype, affine, last, seed):
    plane = [[], [7], [5, 3], [2, 3, 4]][seed % 4]
    x = laid_out(numbers(seed, 3, channels, *plane, dtype=dtype), last)
    pair = _affine(affine, (channels,), dtype, seed)
    running = [numbers(seed + 2, channels, dtype=dtype), numbers(seed + 3, channels, dtype=dtype)]
    running[1] = running[1].abs()
    expected = torch.ops.aten._native_batch_norm_legit_functional(
        *_wide(x, *pair, *running), True, 0.1, 1e-5
    )
    outputs = [dirty(like=x), *(dirty(channels, dtype=dtype) for _ in range(4))]
    agreement.check(FORWARD, [x, *pair, *running, 0.1, 1e-5], outputs, expected, scale=4)


@SWEEP
@given(st.integers(1, 4), dtypes, st.booleans(), st.booleans(), seeds)
def test_batch_norm_in_training_backward(agreement, channels, dtype, weighted, last, seed):
    plane = [[], [7], [5, 3], [2, 3, 4]][seed % 4]
    x = laid_out(numbers(seed, 3, channels, *plane, dtype=dtype), last)
    grad = laid_out(numbers(seed + 4, 3, channels, *plane, dtype=dtype), last)
    weight = numbers(seed + 1, channels, dtype=dtype) if weighted else None
    _, mean, invstd = torch.native_batch_norm(*_wide(x, weight, None, None, None), True, 0.1, 1e-5)
    # As the program hands them over: rounded to the dtype.
    mean, invstd = mean.to(dtype), invstd.to(dtype)
    expected = torch.ops.aten.native_batch_norm_backward(
        *_wide(grad, x, weight, None, None, mean, invstd), True, 1e-5, [True, True, True]
    )
    outputs = [dirty(like=x), *(dirty(channels, dtype=dtype) for _ in range(2))]
    agreement.check(BACKWARD, [grad, x, weight, mean, invstd], outputs, expected, scale=4)


def test_batch_norm_in_training_refuses(agreement):
    x, one = torch.randn(2, 3, 4, 4), torch.randn(3)
    outputs = [dirty(like=x), *(dirty(3) for _ in range(4))]
    for arguments in (
        [x, torch.randn(4), None, one, one],
        [x, None, None, one.double(), one],
    ):
        said = agreement.refuse(FORWARD, [*arguments, 0.1, 1e-5], outputs)
        assert "the tensors of channels have one value for each, of input's dtype" in said
    wrong = [torch.randn(2, 3, 4, 5), x, None, one, one]
    said = agreement.refuse(BACKWARD, wrong, [dirty(like=x), dirty(3), dirty(3)])
    assert "grad_out has the shape and dtype of input" in said


def test_numbers_far_from_zero(agreement):
    """Mean 100, deviation 0.1: as near to the truth as eager, where the stock kernel is not."""
    x = 100 + 0.1 * numbers(5, 2, 4, 8, 8)
    cases = {
        GROUP: ([x, None, None, 2, 4, 64, 2, 1e-5], (2, 2)),
        LAYER: ([x, [8, 8], None, None, 1e-5], (2, 4, 1, 1)),
        BATCH: ([x, None, None, True, 0.1, 1e-5], (4,)),
    }
    truth = {
        GROUP: torch.native_group_norm(x.double(), None, None, 2, 4, 64, 2, 1e-5)[0],
        LAYER: torch.native_layer_norm(x.double(), [8, 8], None, None, 1e-5)[0],
        BATCH: torch._native_batch_norm_legit(x.double(), None, None, True, 0.1, 1e-5)[0],
    }
    for op, (inputs, shape) in cases.items():
        outputs = [dirty(like=x), dirty(*shape), dirty(*shape)]
        ours = agreement.call(op, inputs, outputs)
        stock = agreement.call(op, inputs, outputs, fallback=True)
        assert float((ours.outputs[0] - truth[op]).abs().max()) <= 1e-5, op
        assert not float((stock.outputs[0] - truth[op]).abs().max()) <= 1e-3, op


def test_refused(agreement):
    x, row = torch.ones(2, 4, 3), torch.ones(2, 2)
    outputs = [dirty(like=x), dirty(like=row), dirty(like=row)]
    said = agreement.refuse(GROUP, [x, None, None, 2, 4, 3, 3, 1e-5], outputs)
    assert said.endswith("the number of groups divides that of channels")
    said = agreement.refuse(GROUP, [x, None, None, 2, 4, 5, 2, 1e-5], outputs)
    assert said.endswith("input has N * C * HxW values")
    moments = torch.ones(2, 4, 1)
    outputs = [dirty(like=x), dirty(like=moments), dirty(like=moments)]
    said = agreement.refuse(LAYER, [x, [4], None, None, 1e-5], outputs)
    assert said.endswith("input ends in normalized_shape")
    channel = torch.ones(4)
    outputs = [dirty(like=x), dirty(like=channel), dirty(like=channel)]
    said = agreement.refuse(BATCH, [x, None, None, False, 0.1, 1e-5], outputs)
    assert said.endswith("without running statistics, training is on")


@pytest.mark.parametrize("length", [1, 7, 8, 9, 1000])
def test_rows_of_any_length(agreement, length):
    x = numbers(3, 3, length)
    expected = torch.native_layer_norm(x.double(), [length], None, None, 1e-5)
    outputs = [dirty(like=x), dirty(3, 1), dirty(3, 1)]
    agreement.check(LAYER, [x, [length], None, None, 1e-5], outputs, expected, scale=4)


class _Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)

    def forward(self, x):
        return self.norm(self.conv(x)).square().mul(0.5).tanh().sum()


def test_an_export_trains_with_them(library, tmp_path):
    from graphcheck.export.run import export_workload
    from graphcheck.export.types import ExportOptions
    from graphcheck.workload.types import Workload

    torch.manual_seed(0)
    workload = Workload(module=_Normed(), inputs=(torch.randn(3, 3, 8, 8),))
    options = ExportOptions(
        target="normed",
        steps=4,
        prefer="patch",
        kernel_libraries=(str(library),),
        output=str(tmp_path / "normed.pte"),
    )
    result = export_workload(workload, options)
    assert result.card is not None, result.failure
    assert result.card.verdict == "match"
    names = {record.name for record in result.card.rewrites}
    assert names == {"batch_norm_training_kernel", "batch_norm_backward_kernel"}
    assert set(result.card.kernels) >= {FORWARD, BACKWARD}
    assert any("graphcheck.batch_norm_training (norm)" in line for line in result.card.patched)
