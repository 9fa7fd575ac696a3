"""Models trained in the runtime with the library beside it, as they are: nothing is rewritten."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import filelock
import numpy
import pytest
from build_models import CONTROLS, LEARNING_RATE, NEEDING, STEPS

from graphcheck.runtime.devices.host import train
from graphcheck.runtime.types import ArrayInput, TrainRequest

SOURCE = Path(__file__).parent / "build_models.py"


@pytest.fixture(scope="session")
def models(request) -> Path:
    """The folder of all models, lowered once in a child process."""
    versions = [importlib.metadata.version(name) for name in ("torch", "executorch")]
    key = hashlib.sha256(SOURCE.read_bytes() + repr(versions).encode()).hexdigest()[:16]
    folder = Path(request.config.cache.mkdir(f"graphcheck-kernel-models-{key}"))
    with filelock.FileLock(str(folder / ".lock")):
        if not (folder / "done").is_file():
            done = subprocess.run(
                [sys.executable, str(SOURCE), str(folder)],
                capture_output=True,
                text=True,
                timeout=900,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            assert done.returncode == 0, done.stdout + done.stderr
            (folder / "done").touch()
    return folder


def run_request(models: Path, name: str, libraries: tuple[Path, ...], **options):
    """What to ask of a device, and eager's facts."""
    with numpy.load(models / f"{name}.npz") as file:
        facts = dict(file)
    inputs = tuple(
        ArrayInput(key.split("/")[2], facts[key].shape, facts[key].tobytes())
        for key in sorted(facts)
        if key.startswith("input/")
    )
    request = TrainRequest(
        models / f"{name}.pte",
        (inputs,),
        STEPS,
        learning_rate=LEARNING_RATE,
        kernel_libraries=libraries,
        timeout=120.0,
        **options,
    )
    return request, facts


def _run(models: Path, name: str, libraries: tuple[Path, ...], **options):
    request, facts = run_request(models, name, libraries, **options)
    return train(request), facts


@pytest.mark.parametrize("name", NEEDING)
def test_trains_as_eager_does(models, library, name):
    """On memory full of junk, too; no instruction reads what it should have written."""
    trace, facts = _run(models, name, (library,), fill="junk", detect_stale=True)
    assert trace.failure is None
    assert trace.stale_checked
    assert trace.stale == ()
    losses = [step.loss for step in trace.steps]
    assert numpy.allclose(losses, facts["losses"], rtol=1e-4, atol=0)
    for index, step in enumerate(trace.steps):
        truths = {name: facts[f"gradient/{index}/{name}"] for name in step.gradients}
        # Some gradients are sums that cancel: what is left of them in float32 is rounding.
        largest = max(numpy.abs(truth).max() for truth in truths.values())
        for parameter, gradient in step.gradients.items():
            error = numpy.abs(gradient - truths[parameter]).max() / largest
            assert error <= 5e-4, (index, parameter)


@pytest.mark.parametrize("name", [name for name in NEEDING if name != "far_norms"])
def test_does_not_train_without(models, library, name):
    """The stock runtime refuses it, has no kernel for it, or trains to something else."""
    trace, facts = _run(models, name, (), fill="junk", detect_stale=True)
    assert (
        trace.failure is not None
        or trace.stale
        or not numpy.allclose([s.loss for s in trace.steps], facts["losses"], rtol=1e-4, atol=0)
    )


@pytest.mark.parametrize("name", CONTROLS)
def test_what_is_right_is_left_alone(models, library, name):
    """The same losses and gradients, to the last bit."""
    before, facts = _run(models, name, ())
    after, _ = _run(models, name, (library,))
    assert before.failure is None
    assert after.failure is None
    assert [step.loss for step in before.steps] == [step.loss for step in after.steps]
    assert numpy.allclose([step.loss for step in after.steps], facts["losses"], rtol=1e-4)
    for one, other in zip(before.steps, after.steps, strict=True):
        for parameter, gradient in one.gradients.items():
            assert gradient.tobytes() == other.gradients[parameter].tobytes(), parameter
