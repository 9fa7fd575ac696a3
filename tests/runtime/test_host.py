"""Training in the runtime of this machine: what the native runner measures."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy
import pytest

from graphcheck.errors import ModelError, UsageError
from graphcheck.runtime.devices.host import train
from graphcheck.runtime.devices.interface import device, devices
from graphcheck.runtime.types import ArrayInput

pytestmark = pytest.mark.usefixtures("runner")


def _close(actual, expected, tolerance):
    scale = max(float(numpy.abs(expected).max()), 1e-12)
    error = float(numpy.abs(numpy.asarray(actual, float) - expected).max()) / scale
    return error <= tolerance


def _assert_equals_eager(trace, case, tolerance):
    assert trace.failure is None
    assert len(trace.steps) == 6
    for number, step in enumerate(trace.steps):
        assert _close(step.loss, case.losses[number], tolerance), number
        for kind, given in (("gradient", step.gradients), ("parameter", step.parameters)):
            expected = case.eager(kind, number)
            assert given.keys() == expected.keys()
            for name, value in given.items():
                assert value.shape == expected[name].shape
                assert _close(value, expected[name], tolerance), (number, kind, name)


@pytest.mark.parametrize("fill", ["zero", "nan", "junk"])
def test_a_healthy_model_trains_as_eager_does_whatever_the_memory_held(programs, fill):
    case = programs["healthy"]
    _assert_equals_eager(train(case.request(fill=fill)), case, 2e-5)


@pytest.mark.parametrize(
    ("name", "tolerance"), [("mlp_f64", 1e-6), ("mlp_f16", 5e-3), ("mlp_bf16", 4e-2)]
)
def test_every_floating_dtype_is_updated_in_place(programs, name, tolerance):
    case = programs[name]
    _assert_equals_eager(train(case.request()), case, tolerance)


def test_the_seed_network_diverges_as_measured_elsewhere(programs):
    case = programs["seed_cnn"]
    trace = train(case.request(steps=6))
    losses = [step.loss for step in trace.steps]
    assert abs(losses[0] - case.losses[0]) <= 1e-6
    # Public figures of two arm64 machines; they agree to the digits that rounding leaves.
    public = [2.30954, 12211.5, 1.32748e24, 1.33672e12, 28223.4, 8.40619]
    for loss, figure in zip(losses, public, strict=True):
        assert abs(loss - figure) <= 1e-3 * figure
    assert trace.arena_bytes == 6302768
    assert trace.instructions == 80


@pytest.mark.parametrize("fill", ["zero", "nan", "junk"])
def test_the_fill_is_what_a_stale_kernel_reads(programs, fill):
    step = train(programs["dropout_pool"].request(fill=fill, steps=1)).steps[0]
    largest = float(numpy.abs(step.gradients["conv.weight"]).max())
    if fill == "nan":
        assert math.isnan(largest)
    else:
        assert (largest > 1e30) == (fill == "junk")
    assert numpy.abs(step.gradients["fc.weight"]).max() < 1e3


def test_a_drop_in_kernel_library_makes_the_seed_network_train(programs, kernel_library):
    case = programs["seed_cnn"]
    library = kernel_library("pool_backward")
    _assert_equals_eager(train(case.request(kernel_libraries=(library,))), case, 1e-4)


def test_shifted_training_metadata_is_taken_as_a_device_takes_it(programs):
    case = programs["counter_buffer"]
    trace = train(case.request(steps=1))
    step = trace.steps[0]
    gradients = case.eager("gradient", 0)
    # One mutated buffer: each name has its neighbour's tensor, and the last gradient is a weight.
    assert _close(step.gradients["a.weight"], gradients["b.weight"], 1e-5)
    assert _close(step.gradients["b.weight"], gradients["c.weight"], 1e-5)
    assert list(step.parameters) == ["a.weight", "b.weight"]
    assert _close(step.parameters["a.weight"], case.eager("parameter", 0)["b.weight"], 0.0)
    assert len(step.outputs) == 2


def test_batches_are_used_in_turn_and_may_differ_in_size(programs):
    case = programs["dynamic"]
    small = tuple(
        ArrayInput(a.dtype, (2, a.shape[1]), a.data[: 2 * a.shape[1] * 4]) for a in case.inputs
    )
    request = replace(case.request(steps=3), batches=(case.inputs, small))
    trace = train(request)
    assert trace.failure is None
    assert abs(trace.steps[0].loss - case.losses[0]) <= 1e-5
    assert trace.steps[1].loss != trace.steps[2].loss
    x, y = (numpy.frombuffer(a.data, numpy.float32).reshape(a.shape) for a in small)
    p = trace.steps[1].parameters
    hidden = numpy.tanh(x @ p["a.weight"].T + p["a.bias"])
    loss = ((hidden @ p["b.weight"].T + p["b.bias"] - y) ** 2).mean()
    assert abs(trace.steps[1].loss - loss) <= 1e-5 * loss


def test_without_an_optimizer_all_outputs_are_given_and_nothing_changes(programs):
    case = programs["dynamic"]
    trace = train(case.request(optimizer="none", steps=2))
    assert trace.failure is None
    assert trace.steps[0].loss == trace.steps[1].loss
    assert len(trace.steps[0].outputs) == 9
    assert trace.steps[0].gradients == {}


def test_recording_can_be_left_out(programs):
    trace = train(programs["dynamic"].request(record=False))
    assert len(trace.steps) == 6
    step = trace.steps[0]
    assert (step.gradients, step.parameters, step.outputs) == ({}, {}, ())
    assert step.seconds > 0
    assert step.overhead_seconds > 0


def test_a_missing_kernel_is_named(programs):
    failure = train(programs["avg_pool"].request()).failure
    assert failure.message == (
        "the runtime has no kernel for aten::avg_pool2d_backward.grad_input (error 0x14)"
    )
    assert (failure.kind, failure.stage, failure.code) == ("load", "method", 0x14)
    assert failure.op == "aten::avg_pool2d_backward.grad_input"


def test_a_refusal_names_op_instruction_and_reason(programs):
    trace = train(programs["pad_between"].request())
    failure = trace.failure
    assert trace.steps == ()
    assert failure.message == (
        f"aten::constant_pad_nd.out at instruction {failure.instruction} refuses its arguments "
        "(error 0x12, InvalidArgument): Padding values must be non-negative, but got pad[0] = -1"
    )
    assert (failure.kind, failure.stage, failure.code) == ("refused", "step 0", 0x12)


def test_gradients_of_another_shape_are_told(programs):
    failure = train(programs["wrong_metadata"].request()).failure
    assert failure.message == (
        "the optimizer cannot update a.weight: the gradient has shape [8], the parameter [8, 6]"
    )
    assert (failure.kind, failure.stage) == ("metadata", "step 0")


def test_indices_beyond_the_outputs_are_told(programs):
    failure = train(programs["metadata_beyond"].request()).failure
    assert failure.message == (
        "the program's training metadata is wrong: "
        "gradients start at output 1, parameters at 14, and there are 9"
    )
    assert (failure.kind, failure.stage) == ("metadata", "training metadata")


@pytest.mark.parametrize(
    ("mode", "kind", "message"),
    [
        (1, "crash", "the runtime crashed with SIGSEGV in instruction 3 (aten::tanh.out), step 0"),
        (2, "hang", "the runtime did not end within 1.5 s; "
                    "it was in instruction 3 (aten::tanh.out), step 0"),
        (4, "refused", "aten::tanh.out at instruction 3 failed: "
                       "the runtime does not support this (error 0x10, NotSupported)"),
        (5, "crash", "the runtime crashed with SIGABRT in instruction 3 (aten::tanh.out), step 0"),
    ],
)  # fmt: skip
def test_crash_hang_and_refusal_name_the_instruction(programs, kernel_library, mode, kind, message):
    library = kernel_library("tanh", mode)
    timeout = 1.5 if kind == "hang" else 60.0
    request = programs["dynamic"].request(kernel_libraries=(library,), timeout=timeout)
    failure = train(request).failure
    assert (failure.kind, failure.message) == (kind, message)
    assert (failure.op, failure.instruction) == ("aten::tanh.out", 3)


def test_a_library_that_does_not_load_is_told(programs, tmp_path):
    library = tmp_path / "broken.so"
    library.write_bytes(b"no library")
    failure = train(programs["dynamic"].request(kernel_libraries=(library,))).failure
    assert failure.message.startswith("a kernel library cannot be loaded: ")
    assert "broken.so" in failure.message
    assert (failure.kind, failure.stage) == ("load", "kernel library")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"optimizer": "lion"},
            "the runner has no optimizer 'lion' (it has: adam, adamw, none, sgd)",
        ),
        ({"fill": "ones"}, "no such fill: 'ones' (there are: zero, nan, junk)"),
        ({"timeout": 0.0}, "steps must be 0 or more, and the time limit above 0"),
        ({"steps": 2**32}, "steps must be at most 2147483647, and the time limit 2000000 s"),
    ],
)
def test_wrong_requests_are_refused(programs, options, message):
    with pytest.raises(UsageError) as caught:
        train(programs["dynamic"].request(**options))
    assert caught.value.message == message


def test_batches_that_do_not_fit_are_refused(programs):
    case = programs["dynamic"]
    with pytest.raises(UsageError) as caught:
        train(replace(case.request(), batches=(case.inputs[:1],)))
    assert caught.value.message == "batch 0 has 1 array, method 'forward' takes 2 tensors"
    with pytest.raises(UsageError) as caught:
        train(replace(case.request(), batches=()))
    assert caught.value.message == "there is no batch to train on"
    wrong = (replace(case.inputs[0], dtype="int64"), case.inputs[1])
    with pytest.raises(UsageError) as caught:
        train(replace(case.request(), batches=(wrong,)))
    assert caught.value.message == (
        "input 0 of method 'forward' is at most float32[16, 6], batch 0 gives int64[4, 6]"
    )


def test_a_batch_larger_than_the_bound_is_an_answer(programs):
    case = programs["dynamic"]
    large = tuple(
        ArrayInput(a.dtype, (40, a.shape[1]), bytes(160 * a.shape[1])) for a in case.inputs
    )
    failure = train(replace(case.request(), batches=(large,), checked=False)).failure
    assert failure.message.startswith(
        "input 0 does not fit the program: the runtime does not support this "
        "(error 0x10, NotSupported): "
    )
    assert "240 elements" in failure.message
    assert failure.stage == "step 0"


def test_no_program_is_an_error(tmp_path, programs):
    path = tmp_path / "model.pte"
    path.write_bytes(b"no program at all")
    with pytest.raises(ModelError, match="is not an ExecuTorch program"):
        train(replace(programs["dynamic"].request(), program=path))
    with pytest.raises(ModelError, match="the program has no method 'backward'"):
        train(programs["dynamic"].request(method="backward"))


def test_training_does_not_import_torch(programs):
    case = programs["dynamic"]
    code = (
        "import sys; from pathlib import Path;"
        "from graphcheck.runtime.devices.host import train;"
        "from graphcheck.runtime.types import ArrayInput, TrainRequest;"
        "x = ArrayInput('float32', (4, 6), bytes(96));"
        "y = ArrayInput('float32', (4, 3), bytes(48));"
        f"t = train(TrainRequest(Path({str(case.path)!r}), ((x, y),), 2));"
        "assert t.failure is None and len(t.steps) == 2;"
        "assert 'torch' not in sys.modules and 'executorch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_devices_are_found_by_name():
    assert devices()["host"] is device("host")
    assert all(entry.summary for entry in devices().values())
    with pytest.raises(UsageError) as caught:
        device("toaster")
    assert caught.value.message == "no such device: 'toaster'"
    assert caught.value.hint.startswith("There are host, ")
