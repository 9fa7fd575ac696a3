"""A task that runs probes, and then healthy operations the same way, to save a second start.

The verdicts on the healthy ones go to the file that `HEALTHY` names.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch.extension.training import get_sgd_optimizer

from graphcheck.advisory import task
from graphcheck.advisory.probes import (
    flip_channels_last,
    max_pool2d_backward,
    mutated_buffers_initial_state,
    mutated_buffers_shift,
    native_dropout_scale,
    sgd_half_parameters,
    sum_one_dim_wide,
)
from graphcheck.advisory.probes.kit import (
    generator,
    half_errors,
    judge_half,
    judge_variance,
    load_in_runtime,
    variance_error,
)

aten = torch.ops.aten


def scattered(gradient: Any, indices: Any) -> Any:
    return aten.scatter_add(aten.full([12], 0.0), 0, indices, gradient)


def dropout(x: Any, p: float) -> Any:
    return x * (torch.rand(4096) >= p) / (1 - p)


def run_probes(request: dict[str, Any]) -> int:
    count = task.run_probes(request)
    Path(os.environ["HEALTHY"]).write_text(json.dumps(healthy()))
    return count


def healthy() -> dict[str, Any]:
    gradient, indices = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([5, 7, 5])
    truth = torch.zeros(12).index_add(0, indices, gradient)
    random = generator()
    half = half_errors(
        load_in_runtime,
        aten.mm,
        lambda dtype: [
            (torch.rand(*shape, generator=random) + 0.5).to(dtype)
            for shape in ((2, 2048), (2048, 3))
        ],
    )
    judged = {
        "scatter_add, run twice": max_pool2d_backward.PROBE.judge(
            max_pool2d_backward.measure_twice(
                load_in_runtime, scattered, (gradient, indices), truth
            )
        ),
        "dropout of rand": native_dropout_scale.PROBE.judge(
            native_dropout_scale.measure_scale(load_in_runtime, dropout)
        ),
        "abs, channels last": flip_channels_last.PROBE.judge(
            flip_channels_last.measure_layout(load_in_runtime, torch.abs)
        ),
        "sum over two dims": sum_one_dim_wide.PROBE.judge(
            sum_one_dim_wide.measure_sum(load_in_runtime, [0, 1])
        ),
        "mm in half precision": judge_half(half, "mm"),
        "LayerNorm of 512 elements": judge_variance(
            variance_error(
                load_in_runtime,
                lambda x: aten.native_layer_norm(x, [512], None, None, 1e-5)[0],
                (2, 512),
            ),
            "LayerNorm",
        ),
        "no mutated buffers": mutated_buffers_shift.PROBE.judge(
            mutated_buffers_shift.measure_shift(0)
        ),
        "initial state kept": mutated_buffers_initial_state.PROBE.judge(
            mutated_buffers_initial_state.measure_initial(
                passes=[InitializedMutableBufferPass(["state"])]
            )
        ),
        "SGD on float32": sgd_half_parameters.PROBE.judge(
            sgd_half_parameters.measure_step(get_sgd_optimizer, "float32")
        ),
    }
    return {name: [j.wrong, j.figure] for name, j in judged.items()}
