"""The README's model on arm64 under qemu: wrong where this machine is, right where it is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphcheck.errors import DeviceError
from graphcheck.runtime.devices.interface import device

MODEL = Path(__file__).resolve().parents[1] / "models" / "seed_cnn.py"
STEPS = 2


@pytest.fixture(scope="module")
def qemu():
    """The device, built; skips with what is missing."""
    from graphcheck.runtime.build import build_runner
    from graphcheck.runtime.devices.qemu_aarch64 import started

    try:
        prefix, libraries = started()
        build_runner(libraries, "aarch64", prefix)
    except DeviceError as error:
        pytest.skip(f"{error.message}. {error.hint}")
    return device("qemu-aarch64")


@pytest.fixture(scope="module")
def seed():
    """The workload, its stock program and losses of eager training."""
    from graphcheck.runtime.lower import lower
    from graphcheck.validate.oracle import Oracle
    from graphcheck.workload.load import load
    from graphcheck.workload.request import WorkloadRequest

    workload = load(WorkloadRequest(target=str(MODEL)))
    oracle = Oracle(workload, learning_rate=0.05)
    losses = [oracle.step(index, update=True).loss for index in range(STEPS)]
    return workload, lower(workload), losses


def _trained(place, program, workload):
    from graphcheck.runtime.types import TrainRequest
    from graphcheck.validate.batches import device_batches

    batches = device_batches(workload)
    trace = place.train(TrainRequest(program, batches, STEPS, 0.05, timeout=300, record=False))
    assert trace.failure is None, trace.failure
    return [step.loss for step in trace.steps]


def test_the_stock_program_diverges_there_as_here(qemu, seed, tmp_path):
    workload, lowered, eager = seed
    program, _ = lowered.write(tmp_path)
    here, there = (_trained(place, program, workload) for place in (device("host"), qemu))
    assert there[0] == pytest.approx(eager[0], rel=1e-6)
    assert there[1] > 1000 * eager[1]
    assert there == pytest.approx(here, rel=1e-3)


def test_the_rewritten_program_trains_there_as_here_and_as_eager(qemu, seed, tmp_path):
    from graphcheck.export.run import export_workload
    from graphcheck.export.types import ExportOptions

    workload, _, eager = seed
    output = tmp_path / "seed.pte"
    result = export_workload(workload, ExportOptions(str(MODEL), output=str(output), prove=False))
    assert result.written
    here, there = (_trained(place, output, workload) for place in (device("host"), qemu))
    assert there == pytest.approx(here, rel=1e-5)
    assert there == pytest.approx(eager, rel=1e-5)
