"""The ladder and the verdict, with a device that plays every kind of run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_device import gradient_changed, load_model, lowered, spoiled, trained

from graphcheck.errors import DeviceError, ModelError, UsageError
from graphcheck.runtime.types import InstructionOutput, RunFailure, Trace, UncheckedInstruction


def _validate(train, name="pool_first", steps=4, **options):
    from graphcheck.options import ValidateOptions
    from graphcheck.validate.run import validate_workload

    request = ValidateOptions(target=name, steps=steps, **options)
    return validate_workload(load_model(name), request, lowered=lowered(name), train=train)


def _outcomes(verdict):
    return {stage.name: stage.outcome for stage in verdict.stages}


def _detail(verdict, name):
    return next(stage.detail for stage in verdict.stages if stage.name == name)


def _right(request):
    return trained(load_model("pool_first"), request.steps, request.learning_rate)


def test_match():
    verdict = _validate(_right)
    assert (verdict.verdict, verdict.reason) == (
        "match",
        "the loss and 2 gradients agree with eager at each of 4 steps",
    )
    assert _outcomes(verdict) == {
        "export": "pass",
        "joint": "pass",
        "lower": "pass",
        "load": "pass",
        "step": "pass",
        "train": "pass",
        "compare": "pass",
        "stale": "pass",
        "shadow": "not run",
    }
    assert verdict.steps == len(verdict.losses) == len(verdict.eager_losses) == 4
    assert verdict.stale_checked
    assert set(verdict.overhead) >= {"bare step s", "recorded step s", "eager side s"}
    assert verdict.optimizer == "sgd, learning rate 0.05"
    assert set(verdict.versions) == {"graphcheck", "torch", "executorch"}


def test_the_request_is_what_was_asked_for():
    seen = []

    def train(request):
        seen.append((request, request.program.read_bytes()))
        return _right(request)

    _validate(train, steps=3, learning_rate=0.1, kernel_libraries=("lib/a.so",), timeout=77.0)
    request, program = seen[0]
    assert (request.steps, request.learning_rate, request.timeout) == (3, 0.1, 77.0)
    assert [str(library) for library in request.kernel_libraries] == ["lib/a.so"]
    assert request.detect_stale
    assert program == lowered("pool_first").program
    assert [(a.dtype, a.shape) for a in request.batches[0]] == [
        ("float32", (6, 3, 12, 10)),
        ("int64", (6,)),
    ]


def test_diverged_without_a_dump():
    def train(request):
        change = gradient_changed("fc.weight", lambda gradient: gradient * 1.01)
        return spoiled(_right(request), 2, change)

    verdict = _validate(train)
    assert verdict.verdict == "diverged"
    assert verdict.reason.startswith("gradient of fc.weight at step 2: ")
    assert verdict.first_locked.step == 2
    assert _outcomes(verdict)["compare"] == "fail"
    assert _detail(verdict, "shadow") == "the device gave no dump"
    assert not verdict.shadow_checked


def test_drift():
    from graphcheck.validate.compare import Comparison
    from graphcheck.validate.reason import told_verdict
    from graphcheck.validate.types import Divergence

    parted = Divergence(3, "loss", 1.1, 1.0, 0.1, 0.001)
    trace = trained(load_model("pool_first"), 4)
    found = Comparison(first_free=parted, locked_steps=4, worst={"fc.bias": 1e-7})
    assert told_verdict(found, trace, {}, (), 4) == (
        "drift",
        "with the weights reset to the runtime's before each step every gradient agrees, but "
        "training freely the curves part: loss at step 3: 1.1 in the runtime, 1 in eager "
        "(off by 0.1 of its value, tolerance 0.001)",
    )


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ((), "how the program is put together"),
        (
            (ModelError("Gradient hooks are lost in export (f on a tensor)."),),
            "what export leaves out: Gradient hooks are lost in export (f on a tensor)",
        ),
    ],
)
def test_where_no_instruction_is_to_blame(lost, told):
    from graphcheck.validate.compare import Comparison
    from graphcheck.validate.reason import told_verdict
    from graphcheck.validate.types import Divergence, Shadow

    trace = trained(load_model("pool_first"), 4)
    found = Comparison(first_locked=Divergence(0, "a", 1.0, -1.0, 2.0, 1e-5), locked_steps=1)
    verdict, reason = told_verdict(found, trace, {}, (), 4, Shadow(checked=3), lambda: lost)
    assert verdict == "diverged"
    assert reason.endswith(
        "; every instruction that could be checked computes what eager computes from its inputs, "
        f"so the fault is in {told}"
    )


def test_weights_that_are_not_finite_prove_nothing():
    from graphcheck.validate.compare import Comparison
    from graphcheck.validate.reason import told_verdict

    trace = trained(load_model("pool_first"), 4)
    found = Comparison(locked_steps=1, worst={"fc.bias": 1e-7})
    assert told_verdict(found, trace, {}, (), 4) == (
        "not run",
        "after 1 step of 4, which agree, the weights are not finite, so that nothing is left to "
        "compare: train with a smaller --learning-rate, or look at the model and its data",
    )
    found = Comparison(locked_steps=4, worst={"fc.bias": 1e-7})
    assert told_verdict(found, trace, {}, (), 4)[0] == "match"


def test_another_learning_rate_is_a_wrong_update():
    def train(request):
        return trained(load_model("pool_first"), request.steps, request.learning_rate * 1.5)

    verdict = _validate(train)
    assert verdict.verdict == "diverged"
    assert verdict.reason.startswith("the update of fc.")


def test_refused_at_load():
    message = "the runtime has no kernel for aten::addmm.out (error 0x14)"

    def train(request):
        return Trace(failure=RunFailure("load", "method", message, code=0x14, op="aten::addmm.out"))

    verdict = _validate(train)
    assert verdict.verdict == "not run"
    assert verdict.reason.startswith(f"{message}, at fc (")
    assert _outcomes(verdict)["load"] == "fail"
    assert _detail(verdict, "step") == "load failed"


def test_refused_in_the_first_step():
    def train(request):
        return Trace(
            failure=RunFailure("refused", "step 0", "refuses its arguments", instruction=2)
        )

    verdict = _validate(train)
    assert (verdict.verdict, _outcomes(verdict)["load"]) == ("not run", "pass")
    assert _outcomes(verdict)["step"] == "fail"


def test_a_crash_on_the_way():
    crash = RunFailure("crash", "step 2", "the runtime crashed with SIGSEGV in step 2")

    def train(request):
        trace = _right(request)
        return replace(trace, steps=trace.steps[:2], failure=crash)

    verdict = _validate(train)
    assert verdict.verdict == "not run"
    assert verdict.reason == (
        "stopped after 2 of 4 steps, which agree: the runtime crashed with SIGSEGV in step 2"
    )
    assert (_outcomes(verdict)["train"], _outcomes(verdict)["compare"]) == ("fail", "not run")


def test_stale_outputs_that_agree_by_luck():
    """Agreement on clean memory is no match when another memory makes other gradients."""
    fills = []

    def train(request):
        fills.append(request.fill)
        trace = replace(_right(request), stale=(InstructionOutput(0, "aten::max_pool2d.out"),))
        if request.fill == "zero":
            return trace
        return spoiled(trace, 0, gradient_changed("fc.bias", lambda gradient: gradient + 1))

    verdict = _validate(train)
    assert fills == ["zero", "junk", "zero"]
    assert verdict.verdict == "diverged"
    assert _outcomes(verdict)["stale"] == "fail"
    assert [(s.op, s.module) for s in verdict.stale] == [("aten::max_pool2d.out", "pool")]
    assert "agrees on memory full of zeros, parts on memory full of junk" in verdict.notes


def test_stale_outputs_that_do_not_matter():
    def train(request):
        return replace(_right(request), stale=(InstructionOutput(0, "aten::max_pool2d.out"),))

    verdict = _validate(train)
    assert verdict.verdict == "match"
    assert _outcomes(verdict)["stale"] == "fail"
    assert any("training on memory full of junk agrees, too" in note for note in verdict.notes)


@pytest.mark.parametrize(
    "empty", ["aten::empty.out", "dim_order_ops::_empty_dim_order.out", "aten::new_empty.out"]
)
def test_memory_that_nothing_reads_is_no_stale_output(empty):
    """An empty tensor holds what was there; it is a fault where something is made of it."""
    alone = InstructionOutput(0, empty)
    reader = InstructionOutput(1, "aten::add.out", (0,))

    def flagged(*outputs):
        return _validate(lambda request: replace(_right(request), stale=outputs)).stale

    assert flagged(alone) == ()
    assert [s.op for s in flagged(alone, reader)] == [empty, "aten::add.out"]


def test_what_the_detector_did_not_check_is_told():
    def train(request):
        unchecked = (UncheckedInstruction(4, "aten::rand.out", "it is random"),)
        return replace(_right(request), stale_unchecked=unchecked)

    assert "stale outputs: instruction 4 (aten::rand.out) NOT CHECKED, it is random" in (
        _validate(train).notes
    )

    def without(request):
        return replace(_right(request), stale_checked=False, stale_note="it crashed")

    verdict = _validate(without)
    assert (_outcomes(verdict)["stale"], _detail(verdict, "stale")) == ("not run", "it crashed")


def test_a_missing_compiler_is_raised():
    def train(request):
        raise DeviceError("there is no C++ compiler")

    with pytest.raises(DeviceError):
        _validate(train)


def test_wrong_usage():
    from graphcheck.options import ValidateOptions
    from graphcheck.validate.run import validate_workload

    workload = load_model("pool_first")
    with pytest.raises(UsageError, match="no such device: 'moon'"):
        validate_workload(workload, ValidateOptions(target="", on=("moon",)))
    with pytest.raises(UsageError, match="0 steps cannot be trained"):
        validate_workload(workload, ValidateOptions(target="", steps=0), train=_right)


def test_an_input_that_is_no_tensor():
    from graphcheck.options import ValidateOptions
    from graphcheck.validate.run import validate_workload

    workload = replace(load_model("pool_first"), inputs=(load_model("pool_first").inputs[0], 3))
    verdict = validate_workload(
        workload, ValidateOptions(target=""), lowered=lowered("pool_first"), train=_right
    )
    assert verdict.verdict == "not run"
    assert verdict.reason.startswith("input 1 is 3, not a tensor")


def test_a_channels_last_input_keeps_its_order_in_memory():
    import torch

    from graphcheck.validate.batches import array_input

    tensor = torch.arange(24.0).reshape(1, 2, 3, 4)
    plain, moved = array_input(tensor), array_input(tensor.to(memory_format=torch.channels_last))
    assert (plain.dim_order, moved.dim_order) == ((0, 1, 2, 3), (0, 2, 3, 1))
    assert plain.shape == moved.shape
    assert moved.data == tensor.permute(0, 2, 3, 1).contiguous().numpy().tobytes()
    assert array_input(torch.ones(3).expand(2, 3)).data == torch.ones(2, 3).numpy().tobytes()
    assert array_input(torch.zeros(0, 2)).data == b""
