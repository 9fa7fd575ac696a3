"""A runtime that is eager PyTorch with rounding noise: right, until a test spoils its trace."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy

from graphcheck.runtime.types import StepRecord, Trace
from graphcheck.workload.types import Workload

MODELS = Path(__file__).resolve().parents[1] / "models"


def load_model(name):
    """The workload of a model file under tests/models."""
    path = MODELS / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"tests_models_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Workload(
        module.get_model(),
        module.get_example_inputs(),
        root_type="Model",
        target=f"{name}.py",
        file=str(path),
    )


def trained(workload, steps=5, learning_rate=0.05, amplitude=1.0, seed=3):
    """What a right runtime records: every op off by about one rounding error."""
    import torch

    from graphcheck.validate.noise import noise_mode
    from graphcheck.validate.oracle import Oracle

    runtime = Oracle(workload, learning_rate=learning_rate)
    records = []
    for index in range(steps):
        parameters = runtime.state()
        torch.manual_seed(1000 + index)
        step = runtime.step(
            index,
            update=True,
            mode=noise_mode(1, seed + 17 * index, amplitude) if amplitude else None,
        )
        records.append(
            StepRecord(
                loss=step.loss,
                gradients={n: g.astype(numpy.float32) for n, g in step.gradients.items()},
                parameters=parameters,
                seconds=0.001,
            )
        )
    return Trace(steps=tuple(records), instructions=10, stale_checked=True)


def spoiled(trace, step, change):
    """The trace with `change(record) -> record` applied to one step."""
    records = list(trace.steps)
    records[step] = change(records[step])
    return replace(trace, steps=tuple(records))


def gradient_changed(name, change):
    """For `spoiled`: one gradient replaced by `change(copy of it)`."""

    def apply(record):
        gradients = dict(record.gradients)
        gradients[name] = change(gradients[name].copy())
        return replace(record, gradients=gradients)

    return apply


@cache
def lowered(name):
    """The stock lowering of a model under tests/models; one per test process."""
    from graphcheck.runtime.lower import lower

    return lower(load_model(name))


@cache
def no_runtime():
    """Why the native runner cannot be had on this machine, "" if it can."""
    from graphcheck.errors import DeviceError
    from graphcheck.runtime.build import build_runner

    try:
        build_runner()
    except DeviceError as error:
        return error.message
    return ""
