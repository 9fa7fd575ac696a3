"""Several devices at once: what each gave, what they give together, and one that is not there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_device import load_model, lowered, no_runtime, trained

from graphcheck.cli.exits import FailOn, exit_code_of_verdict
from graphcheck.errors import DeviceError, ExitCode, UsageError
from graphcheck.options import ValidateOptions
from graphcheck.runtime.types import RunFailure, Trace
from graphcheck.validate import run as run_module
from graphcheck.validate.optimizer import settings_of
from graphcheck.validate.run import validate_workload


class Fake:
    """A device that is eager PyTorch with other rounding; `change` spoils its trace."""

    summary = "a fake"

    def __init__(self, name, seed=3, change=None):
        self.name = name
        self.seed = seed
        self.change = change
        self.requests = []

    def machine(self):
        return "x86_64"

    def train(self, request):
        self.requests.append(request)
        if not request.checked:
            return Trace(failure=RunFailure("refused", "step 0", "input 0 does not fit"))
        trace = trained(load_model("pool_first"), request.steps, request.learning_rate, 1.0, 3)
        trace = replace(trace, peak_bytes=64 << 20, start_bytes=16 << 20, arena_bytes=1 << 20)
        return self.change(trace) if self.change else trace


def missing(trace):
    raise DeviceError("board: no route to host.", "Plug it in.")


def cut(kind, message="the connection was lost, at step 2"):
    failure = RunFailure(kind, "step 2", message)
    return lambda trace: replace(trace, steps=trace.steps[:2], failure=failure)


def louder(trace):
    steps = [replace(s, gradients={n: g * 2 for n, g in s.gradients.items()}) for s in trace.steps]
    return replace(trace, steps=tuple(steps))


@pytest.fixture
def validated(monkeypatch):
    def validate(*fakes, **options):
        known = {fake.name: fake for fake in fakes}
        monkeypatch.setattr(run_module, "open_device", lambda name, _: known[name])
        wanted = ValidateOptions("model.py", steps=4, on=tuple(known), **options)
        workload = load_model("pool_first")
        return validate_workload(workload, wanted, lowered=lowered("pool_first"))

    return validate


def code(verdict):
    return exit_code_of_verdict(verdict, FailOn.WARNING)


def test_two_that_agree(validated):
    verdict = validated(Fake("one"), Fake("two"))
    assert verdict.verdict == "match"
    assert verdict.reason == (
        "the loss and 2 gradients agree with eager at each of 4 steps, on one and two"
    )
    one, two = verdict.devices
    assert (one.gap, two.gap, two.gap_step) == (None, 0.0, None)
    assert (two.step_seconds, two.step_low, two.step_high) == (0.001, 0.001, 0.001)
    assert (two.peak_bytes, two.arena_bytes) == (64 << 20, 1 << 20)
    assert code(verdict) == ExitCode.OK


def test_one_that_is_missing(validated):
    verdict = validated(Fake("one"), Fake("board", change=missing))
    assert verdict.verdict == "match"
    assert verdict.reason == (
        "the loss and 2 gradients agree with eager at each of 4 steps, on one; "
        "NOT RUN on board: no route to host (Plug it in)"
    )
    assert verdict.devices[1].lost
    assert verdict.devices[1].failed_at == "load"
    assert code(verdict) == ExitCode.OK
    required = validated(Fake("one"), Fake("board", change=missing), require=True)
    assert code(required) == ExitCode.DEVICE


def test_none_that_is_there(validated):
    verdict = validated(Fake("board", change=missing))
    assert verdict.verdict == "not run"
    assert code(verdict) == ExitCode.DEVICE


def test_this_machine_alone_has_no_excuse(validated):
    with pytest.raises(DeviceError, match="no route to host"):
        validated(Fake("host", change=missing))


@pytest.mark.parametrize("kind", ["device", "space", "hang"])
def test_one_that_goes_away(validated, kind):
    verdict = validated(Fake("one"), Fake("board", change=cut(kind)), require=True)
    assert verdict.verdict == "match"
    board = verdict.devices[1]
    assert (board.lost, board.failed_at, board.steps) == (True, "train", 2)
    assert board.reason == (
        "stopped after 2 of 4 steps, which agree: the connection was lost, at step 2"
    )
    assert code(verdict) == ExitCode.DEVICE


def test_a_program_that_is_refused_is_no_lost_device(validated):
    verdict = validated(Fake("one"), Fake("board", change=cut("refused", "op refuses")))
    assert (verdict.verdict, verdict.devices[1].lost) == ("not run", False)
    assert verdict.reason == "on board: stopped after 2 of 4 steps, which agree: op refuses"
    assert code(verdict) == ExitCode.FINDINGS


def test_the_worst_counts(validated):
    verdict = validated(Fake("one"), Fake("two", change=louder))
    assert verdict.verdict == "diverged"
    assert verdict.reason.startswith("on two: gradient of ")
    assert [device.verdict for device in verdict.devices] == ["match", "diverged"]
    assert code(verdict) == ExitCode.FINDINGS


def test_losses_that_part(validated):
    def later(trace):
        steps = [
            replace(s, loss=s.loss * (1.01 if i > 1 else 1)) for i, s in enumerate(trace.steps)
        ]
        return replace(trace, steps=tuple(steps))

    verdict = validated(Fake("one"), Fake("two", change=later))
    assert verdict.devices[1].gap == pytest.approx(0.01 / 1.01)
    assert verdict.devices[1].gap_step == 2


def test_results_are_kept_for_other_devices_than_this_machine(validated):
    host, board = Fake("host"), Fake("board")
    validated(host)
    assert not host.requests[0].keep
    validated(host, board, resume=True)
    assert [(r.keep, r.resume) for r in (host.requests[-1], board.requests[0])] == [
        (True, True)
    ] * 2


@pytest.mark.parametrize(
    ("name", "more"),
    [("sgd", {"momentum": 0.9, "weight_decay": 0.01}), ("adam", {}), ("adamw", {})],
)
def test_optimizers_match_eager(name, more):
    if no_runtime():
        pytest.skip(no_runtime())
    options = ValidateOptions("model.py", steps=6, learning_rate=0.01, optimizer=name, **more)
    workload, program = load_model("healthy"), lowered("healthy")
    verdict = validate_workload(workload, options, lowered=program)
    assert verdict.verdict == "match", verdict.reason
    assert verdict.optimizer.startswith(f"{name}, learning rate 0.01")


def test_another_constant_is_a_wrong_update():
    if no_runtime():
        pytest.skip(no_runtime())
    from graphcheck.runtime.devices.host import train

    def other(request):
        return train(replace(request, settings=replace(request.settings, betas=(0.9, 0.99))))

    options = ValidateOptions("model.py", steps=4, learning_rate=0.01, optimizer="adamw")
    verdict = validate_workload(
        load_model("healthy"), options, lowered=lowered("healthy"), train=other
    )
    assert verdict.verdict == "diverged"
    assert " is not that of torch.optim (adamw, learning rate 0.01, weight decay 0.01): " in (
        verdict.reason
    )


def test_a_trace_without_steps_has_no_figures(validated):
    failure = RunFailure("load", "method", "no kernel")
    verdict = validated(Fake("one"), Fake("two", change=lambda _: Trace(failure=failure)))
    assert verdict.devices[1].step_seconds == 0.0
    assert verdict.devices[1].gap is None
    assert verdict.verdict == "not run"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "lion"}, "optimizer 'lion' cannot be compared with eager training"),
        ({"optimizer": "adam", "momentum": 0.9}, "optimizer adam has no momentum"),
        ({"betas": (0.8, 0.9)}, "optimizer sgd has no betas"),
        ({"momentum": 1.0}, "momentum must be from 0 to below 1, not 1.0"),
        ({"weight_decay": -1.0}, "weight decay must be 0 or more, not -1.0"),
        ({"optimizer": "adam", "betas": (0.9, 1.5)}, "betas must be from 0 to below 1, not "),
    ],
)
def test_settings_that_cannot_be(options, message):
    with pytest.raises(UsageError) as caught:
        settings_of(ValidateOptions("model.py", **options))
    assert caught.value.message.startswith(message)
