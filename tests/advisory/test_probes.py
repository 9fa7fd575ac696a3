"""Every probe goes red on a broken kernel and stays green on a healthy one.

The kernels here are PyTorch's own and copies of them with a fault, sent the way of the runtime's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from graphcheck.advisory.probes import (
    mutated_buffers_initial_state,
    mutated_buffers_shift,
    sgd_half_parameters,
)
from graphcheck.advisory.probes.interface import Load, Run, all_probes, digest
from graphcheck.advisory.probes.kit import load_in_eager, relative_error

OTHER = {
    name
    for name in all_probes()
    if name.startswith("mutated_buffers") or name == "sgd_half_parameters"
}
OPS = sorted(set(all_probes()) - OTHER)
HALF = [name for name in OPS if "_half" in name]


def in_float(operation: Callable[..., Any], inputs: Sequence[Any]) -> Run:
    """A healthy kernel: half-precision numbers are computed in float and rounded once.

    PyTorch itself is none for index_put, which adds up in the storage type on the CPU.
    """
    import torch

    half = (torch.float16, torch.bfloat16)

    def run(*arguments: Any) -> list[Any]:
        kinds = [a.dtype for a in arguments if a.dtype in half]
        wide = [a.float() if a.dtype in half else a for a in arguments]
        result = operation(*wide)
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        return [o.to(kinds[0]) if kinds and o.is_floating_point() else o for o in outputs]

    return run


def changed(change: Callable[[Any], Any]) -> Load:
    """A broken kernel: the healthy one with its floating outputs changed."""

    def load(operation: Callable[..., Any], inputs: Sequence[Any]) -> Run:
        run = in_float(operation, inputs)
        return lambda *arguments: [
            change(o) if o.is_floating_point() else o + 1 for o in run(*arguments)
        ]

    return load


def stale(operation: Callable[..., Any], inputs: Sequence[Any]) -> Run:
    """A broken kernel: it adds to what the run before left in its memory."""
    run = in_float(operation, inputs)
    memory: list[Any] = []

    def add(*arguments: Any) -> list[Any]:
        memory[:] = [
            new + old for new, old in zip(run(*arguments), memory or [0] * 9, strict=False)
        ]
        return memory

    return add


def verdict(name: str, load: Load) -> bool:
    probe = all_probes()[name]
    return probe.judge(probe.measure(load)).wrong


@pytest.mark.parametrize("name", OPS)
def test_a_healthy_kernel_is_right(name: str) -> None:
    assert not verdict(name, in_float)


@pytest.mark.parametrize("name", OPS)
def test_nan_is_wrong(name: str) -> None:
    assert verdict(name, changed(lambda output: output * float("nan")))


@pytest.mark.parametrize("name", OPS)
def test_an_output_a_little_off_is_wrong(name: str) -> None:
    assert verdict(name, changed(lambda output: output * 1.03))


def test_stale_memory_is_seen_in_the_second_run_only() -> None:
    probe = all_probes()["max_pool2d_backward"]
    figures = probe.measure(stale)
    assert figures["first"] == 0
    assert figures["second"] == pytest.approx(1)
    judgement = probe.judge(figures)
    assert judgement.wrong
    assert judgement.figure == (
        "one program, run twice on the same input: gradient off by 0, then 1 of its largest entry"
    )


def test_dropout_that_does_not_scale_is_wrong() -> None:
    import torch

    from graphcheck.advisory.probes.native_dropout_scale import measure_scale

    def unscaled(x: Any, p: float) -> Any:
        return x * (torch.rand(x.shape) >= p)

    probe = all_probes()["native_dropout_scale"]
    judgement = probe.judge(measure_scale(load_in_eager, unscaled))
    assert judgement.wrong
    assert judgement.figure == (
        "kept output / x = 1 at p = 0.5 (right: 2), 1 at p = 0.8 (right: 5)"
    )
    scaled = measure_scale(load_in_eager, lambda x, p: unscaled(x, p) / (1 - p))
    assert not probe.judge(scaled).wrong


def test_dropout_that_keeps_nothing_is_wrong() -> None:
    assert verdict("native_dropout_scale", changed(lambda output: output * 0))


def test_flip_in_row_major_order_is_wrong() -> None:
    import torch

    def row_major(operation: Callable[..., Any], inputs: Sequence[Any]) -> Run:
        def run(x: Any) -> list[Any]:
            # Memory as it lies, taken for contiguous.
            flat = torch.as_strided(x, (x.numel(),), (1,))
            return [operation(flat.reshape(x.shape))]

        return run

    assert verdict("flip_channels_last", row_major)


def test_a_sum_in_float_is_wrong() -> None:
    def narrow(operation: Callable[..., Any], inputs: Sequence[Any]) -> Run:
        return lambda *arguments: [
            o.to(a.dtype)
            for o, a in zip(operation(*(a.float() for a in arguments)), arguments, strict=True)
        ]

    assert verdict("sum_one_dim_wide", narrow)


@pytest.mark.parametrize(
    ("name", "groups", "dims"),
    [
        ("group_norm_variance", (4, -1), (1,)),
        ("layer_norm_variance", (4, 64), (1,)),
        ("batch_norm_variance", (2, 4, 64), (0, 2)),
    ],
)
def test_a_variance_as_difference_of_squares_is_wrong(
    name: str, groups: tuple[int, ...], dims: tuple[int, ...]
) -> None:
    def cancelling(operation: Callable[..., Any], inputs: Sequence[Any]) -> Run:
        def run(x: Any) -> list[Any]:
            rows = x.reshape(groups)
            mean = rows.mean(dims, keepdim=True)
            variance = (rows * rows).mean(dims, keepdim=True) - mean * mean
            return [((rows - mean) / (variance + 1e-5).sqrt()).reshape(x.shape)]

        return run

    assert verdict(name, cancelling)


@pytest.mark.parametrize("name", ["addmm_half", "cumsum_half", "index_put_half"])
def test_sums_in_the_storage_type_are_wrong(name: str) -> None:
    import torch

    def term_by_term(operation: Callable[..., Any], inputs: Sequence[Any]) -> Run:
        def run(*arguments: Any) -> list[Any]:
            if name == "addmm_half":
                terms = (arguments[1].unsqueeze(2) * arguments[2].unsqueeze(0)).movedim(1, 0)
            elif name == "cumsum_half":
                terms = arguments[0].t()
            else:
                terms = arguments[2]
            total = torch.zeros_like(terms[0])
            steps = []
            for term in terms:
                total = total + term
                steps.append(total)
            if name == "cumsum_half":
                return [torch.stack(steps, 1)]
            if name == "index_put_half":
                return [torch.stack([total, torch.zeros_like(total)])]
            return [total]

        return run

    assert verdict(name, term_by_term)


@pytest.mark.parametrize("name", HALF)
def test_one_wrong_half_type_is_enough(name: str) -> None:
    probe = all_probes()[name]
    assert probe.judge({"float16": 1e-4, "bfloat16": 0.5}).wrong
    assert probe.judge({"float16": 0.1, "bfloat16": 1e-3}).wrong
    assert not probe.judge({"float16": 1e-4, "bfloat16": 1e-3}).wrong


@pytest.mark.parametrize("name", sorted(all_probes()))
def test_a_missing_figure_is_no_answer(name: str) -> None:
    with pytest.raises(KeyError):
        all_probes()[name].judge({})


def test_the_judges_of_lowering_and_optimizer() -> None:
    judge = mutated_buffers_shift.PROBE.judge
    assert judge({"buffers": 2, "said": 3, "first": 1}).wrong
    assert not judge({"buffers": 2, "said": 1, "first": 1}).wrong
    judge = mutated_buffers_initial_state.PROBE.judge
    assert judge({"state": 0}).wrong
    assert judge({"state": float("nan")}).wrong
    assert not judge({"state": 7}).wrong
    judge = sgd_half_parameters.PROBE.judge
    assert judge({"wrong": 1, "outside": 0}).wrong
    assert judge({"wrong": 0, "outside": 1}).wrong
    assert not judge({"wrong": 0, "outside": 0}).wrong


def test_the_guards_around_parameters_see_a_step_that_leaves_them() -> None:
    import torch

    class Sgd:
        def __init__(self, parameters: dict[str, Any], rate: float) -> None:
            self.parameter = parameters["weight"]
            self.rate = rate

        def step(self, gradients: dict[str, Any]) -> None:
            self.parameter.sub_(self.rate * gradients["weight"])

    class Overrun(Sgd):
        def step(self, gradients: dict[str, Any]) -> None:
            super().step(gradients)
            behind = torch.as_strided(
                self.parameter, (4,), (1,), self.parameter.storage_offset() + 64
            )
            behind.fill_(0)

    measure = sgd_half_parameters.measure_step
    assert measure(Sgd, "bfloat16") == {"wrong": 0, "outside": 0}
    assert measure(Overrun, "bfloat16") == {"wrong": 0, "outside": 4}


def test_relative_error_of_nan_and_of_a_zero_truth_is_infinite() -> None:
    import torch

    one = torch.ones(2)
    assert relative_error(one, one) == 0
    assert relative_error(one * float("nan"), one) == float("inf")
    assert relative_error(one, one * 0) == float("inf")


def test_the_digest_follows_the_source_of_the_probe() -> None:
    digests = {name: digest(name) for name in all_probes()}
    assert len(set(digests.values())) == len(digests)
    assert all(len(value) == 16 for value in digests.values())
