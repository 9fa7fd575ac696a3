"""The runner's optimizers, step by step, against torch.optim on the runner's own gradients."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import numpy
import pytest

from graphcheck.runtime.build import runner_sources
from graphcheck.runtime.devices.host import run_here, train
from graphcheck.runtime.devices.job import train_with
from graphcheck.runtime.libraries import find_libraries
from graphcheck.runtime.toolchain import compile_program
from graphcheck.runtime.types import OptimizerSettings

pytestmark = pytest.mark.usefixtures("runner")

CASES = {
    "momentum": ("sgd", OptimizerSettings(momentum=0.9)),
    "decay": ("sgd", OptimizerSettings(momentum=0.5, weight_decay=0.1)),
    "adam": ("adam", OptimizerSettings()),
    "adam-decay": ("adam", OptimizerSettings(weight_decay=0.1, betas=(0.4, 0.99), eps=1e-5)),
    "adamw": ("adamw", OptimizerSettings(weight_decay=0.1)),
}
DTYPES = {"mlp_f64": "float64", "healthy": "float32", "mlp_f16": "float16", "mlp_bf16": "bfloat16"}


def largest_error(trace, name, settings, rate, dtype):
    """The largest error of a weight after a step, in units of its dtype at the largest entry."""
    import torch

    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    more = (
        {"momentum": settings.momentum}
        if name == "sgd"
        else {"betas": settings.betas, "eps": settings.eps}
    )
    kept, worst = {}, 0.0
    for step, following in zip(trace.steps, trace.steps[1:], strict=False):
        for key, gradient in step.gradients.items():
            if key not in kept:
                weight = torch.tensor(step.parameters[key], dtype=getattr(torch, dtype))
                weight.requires_grad_(True)
                decay = settings.weight_decay
                kept[key] = weight, kind([weight], lr=rate, weight_decay=decay, **more)
            weight, optimizer = kept[key]
            with torch.no_grad():
                weight.copy_(torch.tensor(step.parameters[key]))
            weight.grad = torch.tensor(gradient, dtype=weight.dtype)
            optimizer.step()
            wanted = weight.detach().double().numpy()
            got = following.parameters[key].astype(numpy.float64)
            # A NaN is no agreement, not even with another.
            error = numpy.nan_to_num(numpy.abs(got - wanted), nan=numpy.inf).max()
            worst = max(worst, error / (numpy.abs(wanted).max() * torch.finfo(weight.dtype).eps))
    return worst


@pytest.mark.parametrize("program", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_updates_are_those_of_torch(programs, case, program):
    name, settings = CASES[case]
    rate = 0.01 if name == "sgd" else 0.002
    if program == "mlp_f16" and name != "sgd":
        settings = replace(settings, eps=1e-3)  # 1e-8 is 0 in half: 0 / 0, in torch, too
    trace = train(
        programs[program].request(optimizer=name, settings=settings, learning_rate=rate, steps=5)
    )
    assert trace.failure is None
    assert len(trace.steps) == 5
    moved = max(
        numpy.abs(trace.steps[4].parameters[key] - trace.steps[0].parameters[key]).max()
        for key in trace.steps[0].gradients
    )
    assert moved > rate / 10
    assert largest_error(trace, name, settings, rate, DTYPES[program]) <= 1.0


def test_the_measure_sees_another_constant(programs):
    name, settings = CASES["adamw"]
    request = programs["healthy"].request(optimizer=name, settings=settings, learning_rate=0.002)
    trace = train(replace(request, settings=replace(settings, betas=(0.9, 0.998))))
    assert largest_error(trace, name, settings, 0.002, "float32") > 100


def test_a_wrong_formula_is_seen(programs, compiler, tmp_path):
    right = r"std::sqrt\(1 - std::pow\(request_.beta2, steps\)\)"
    sources = []
    for source in runner_sources():
        copy = shutil.copy(source, tmp_path / source.name)
        sources += [copy] if source.suffix == ".cpp" else []
    header = tmp_path / "optimizer.h"
    text, count = re.subn(right, "1.0", header.read_text())
    assert count == 1
    header.write_text(text)
    compile_program(compiler, sources, tmp_path / "runner", find_libraries())
    name, settings = CASES["adamw"]
    request = programs["healthy"].request(optimizer=name, settings=settings, learning_rate=0.002)
    trace = train_with(lambda job: run_here((str(tmp_path / "runner"),), job), request, "")
    assert largest_error(trace, name, settings, 0.002, "float32") > 100
