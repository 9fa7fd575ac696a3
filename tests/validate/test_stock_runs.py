"""The stock runtime on the model files: the verdict each must get, measured, not looked up."""

from __future__ import annotations

from functools import cache

import pytest
import yaml
from fake_device import MODELS, load_model, lowered, no_runtime

EXPECTED = yaml.safe_load((MODELS / "expected.yaml").read_text())


@cache
def _verdict(name):
    from graphcheck.options import ValidateOptions
    from graphcheck.validate.run import validate_workload

    if no_runtime():
        pytest.skip(no_runtime())
    # The big one is diverged after a step; 20 of them would take the time of all the others.
    steps = 3 if name == "seed_cnn" else 20
    options = ValidateOptions(target=name, steps=steps, timeout=120)
    return validate_workload(load_model(name), options, lowered=lowered(name))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_verdict(name):
    verdict = _verdict(name)
    assert verdict.verdict == EXPECTED[name]["stock_run"], verdict.reason
    outcomes = {stage.name: stage.outcome for stage in verdict.stages}
    if verdict.verdict == "match":
        assert verdict.steps == 20
        assert "fail" not in outcomes.values()
        assert outcomes["compare"] == outcomes["stale"] == "pass"
        assert set(verdict.worst_gradient_errors) == {
            parameter for parameter, _ in load_model(name).module.named_parameters()
        }
        assert max(verdict.worst_gradient_errors.values()) < 1e-4
    else:
        assert "fail" in outcomes.values()
    if verdict.verdict == "not run":
        assert outcomes["compare"] == "not run"
        assert verdict.losses == ()


def test_seed_cnn_names_the_two_pools():
    verdict = _verdict("seed_cnn")
    roots = [s for s in verdict.stale if s.caused_by is None]
    assert [(s.op, s.module) for s in roots] == [
        ("aten::max_pool2d_with_indices_backward.grad_input", "pool2"),
        ("aten::max_pool2d_with_indices_backward.grad_input", "pool1"),
    ]
    assert verdict.losses[0] == pytest.approx(verdict.eager_losses[0], rel=1e-6)
    assert verdict.losses[1] > 1000
    assert (verdict.first_locked.step, verdict.first_locked.quantity) == (0, "conv2.weight")
    assert (verdict.first_wrong.op, verdict.first_wrong.module) == (
        "aten::max_pool2d_with_indices_backward.grad_input",
        "pool2",
    )
    # What lies before the pools in the backward pass is right.
    errors = verdict.worst_gradient_errors
    assert max(error for name, error in errors.items() if name.startswith("fc")) < 1e-4
    assert all(f":{line}" in s.source for s, line in zip(roots, (19, 18), strict=True))


def test_overlap_pool_names_its_pool():
    verdict = _verdict("overlap_pool")
    assert verdict.first_locked.quantity.startswith("conv.")
    assert verdict.first_wrong.module == "pool"
    stage = next(stage for stage in verdict.stages if stage.name == "shadow")
    assert stage.detail.startswith("wrong from the same inputs: ")


def test_counter_buffer_names_the_shift():
    verdict = _verdict("counter_buffer")
    assert (verdict.first_locked.step, verdict.first_locked.quantity) == (0, "c.weight")
    assert verdict.reason.endswith(
        "; the program's training metadata gives gradients the names of others"
    )
    assert any("a.weight holds the values of b.weight" in note for note in verdict.notes)
    # Each instruction is right: the fault is in the names alone.
    assert verdict.shadow_checked
    assert verdict.first_wrong is None


def test_dropout_is_wrong_for_its_scale_and_not_for_chance():
    verdict = _verdict("dropout")
    assert (verdict.first_wrong.op, verdict.first_wrong.module) == (
        "aten::native_dropout.out",
        "drop",
    )
    assert verdict.first_wrong.detail == "survivors are multiplied by 1, not by 1/(1-p) = 2"
    assert verdict.reason.startswith("with the same draws, loss at step 0: ")
    assert not verdict.free_compared
    assert any("20 steps entry by entry" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("name", "stage", "detail"),
    [
        ("avg_pool", "load", "no kernel for aten::avg_pool2d_backward.grad_input"),
        ("adaptive_pool", "load", "no kernel for aten::_adaptive_avg_pool2d_backward.out"),
        ("pad_between", "step", "aten::constant_pad_nd.out at instruction"),
        ("conv1d", "step", "aten::convolution_backward.out at instruction"),
        ("batch_norm", "lower", "to_edge refuses aten._native_batch_norm_legit_functional (norm)"),
    ],
)
def test_refusals_name_op_and_module(name, stage, detail):
    verdict = _verdict(name)
    failed = next(stage for stage in verdict.stages if stage.outcome == "fail")
    assert failed.name == stage
    assert detail in failed.detail
    assert verdict.reason == failed.detail
    if stage != "lower":
        module = {"pad_between": "forward", "conv1d": "b"}.get(name, "pool")
        assert f", at {module} (" in verdict.reason
