"""Other inputs than the example's: sizes of a dynamic batch, and what must be refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from fake_device import no_runtime

from graphcheck.errors import UsageError
from graphcheck.runtime.types import RunFailure, Trace
from graphcheck.validate.batches import device_batches
from graphcheck.validate.input_stage import with_inputs
from graphcheck.validate.types import Verdict

MATCH = Verdict("model.py", "match", "all agree")
FOLDERS = []
"""Folders of programs, kept until the end of the tests."""


@cache
def _case(dynamic):
    """A small model with its program, written once."""
    import tempfile

    import torch

    from graphcheck.runtime.lower import lower
    from graphcheck.runtime.types import TrainRequest
    from graphcheck.workload.load import from_module

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(6, 5)

        def forward(self, x, y):
            return ((self.a(x).tanh() - y) ** 2).mean()

    torch.manual_seed(0)
    inputs = (torch.randn(4, 6), torch.randn(4, 5))
    workload = from_module(Net(), inputs, dynamic_batch=dynamic)
    folder = tempfile.TemporaryDirectory(prefix="graphcheck-")
    FOLDERS.append(folder)
    program, _ = lower(workload).write(Path(folder.name))
    return workload, TrainRequest(program, device_batches(workload), 1, timeout=60)


def _judged(dynamic, train=None):
    from graphcheck.runtime.devices.host import train as host

    if no_runtime():
        pytest.skip(no_runtime())
    workload, request = _case(dynamic)
    verdict = with_inputs(MATCH, request, workload, train or host)
    return verdict, verdict.stages[-1]


def test_a_dynamic_batch_agrees_at_every_size_and_above_is_refused():
    verdict, stage = _judged(True)
    assert verdict.verdict == "match"
    assert (stage.name, stage.outcome, stage.detail) == (
        "inputs",
        "pass",
        "another shape and another dtype refused; a batch of 1 agrees; a batch of 2 agrees; "
        "a batch of 4 agrees; 5 refused",
    )


def test_a_static_program_refuses_what_does_not_fit():
    _, stage = _judged(False)
    assert (stage.outcome, stage.detail) == ("pass", "another shape and another dtype refused")


def test_a_runtime_that_takes_anything():
    def lax(request):
        from graphcheck.runtime.devices.host import train

        return train(request) if request.checked else Trace()

    verdict, stage = _judged(False, lax)
    assert (verdict.verdict, stage.outcome) == ("diverged", "fail")
    assert verdict.reason == (
        "the runtime takes input 0 as float32[6, 4] in place of float32[4, 6]; "
        "the runtime takes input 0 as int32[4, 6] in place of float32[4, 6]; "
        "the runtime takes input 1 as float32[5, 4] in place of float32[4, 5]; "
        "the runtime takes input 1 as int32[4, 5] in place of float32[4, 5]"
    )
    verdict, _ = _judged(True, lax)
    assert verdict.reason == "the runtime takes a batch of 5, more than the 4 it has memory for"
    assert any("so the app has to look at shapes itself" in note for note in verdict.notes)


def test_a_size_that_is_wrong():
    def wrong(request):
        from graphcheck.runtime.devices.host import train

        trace = train(request)
        if request.checked and request.batches[0][0].shape[0] == 1:
            steps = [
                replace(s, gradients={n: g * 1.01 for n, g in s.gradients.items()})
                for s in trace.steps
            ]
            return replace(trace, steps=tuple(steps))
        return trace

    verdict, _ = _judged(True, wrong)
    assert verdict.verdict == "diverged"
    assert verdict.reason.startswith("with a batch of 1, gradient of a.")


def test_a_size_that_does_not_run():
    def refusing(request):
        from graphcheck.runtime.devices.host import train

        if request.checked and request.batches[0][0].shape[0] == 2:
            return Trace(failure=RunFailure("refused", "step 0", "it does not fit"))
        return train(request)

    verdict, _ = _judged(True, refusing)
    assert verdict.reason == "a batch of 2 does not run: it does not fit"


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((6, 4), "float32", "float32[4, 6], batch 0 gives float32[6, 4]"),
        ((4, 6), "int32", "float32[4, 6], batch 0 gives int32[4, 6]"),
        ((24,), "float32", "float32[4, 6], batch 0 gives float32[24]"),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_graphcheck_itself_refuses_wrong_inputs_of_the_same_size(dynamic, shape, dtype, message):
    from graphcheck.runtime.devices.host import train

    _, request = _case(dynamic)
    x, y = request.batches[0]
    wrong = replace(x, shape=shape, dtype=dtype, dim_order=tuple(range(len(shape))))
    with pytest.raises(UsageError) as caught:
        train(replace(request, batches=((wrong, y),)))
    most = "at most " if dynamic else ""
    assert caught.value.message == f"input 0 of method 'forward' is {most}{message}"
