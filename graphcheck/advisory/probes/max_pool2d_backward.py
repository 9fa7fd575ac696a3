"""Does the gradient of max pooling depend on what its memory held before?"""

from __future__ import annotations

from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Probe
from graphcheck.advisory.probes.kit import relative_error

__all__ = ["PROBE", "measure_twice"]


def measure_twice(load: Load, operation: Any, arguments: Any, truth: Any) -> Figures:
    """Run the same program twice on the same inputs: the second finds the first's memory."""
    run = load(operation, arguments)
    first = run(*arguments)[0].clone()
    second = run(*arguments)[0].clone()
    return {
        "first": relative_error(first, truth),
        "second": relative_error(second, truth),
    }


def measure(load: Load) -> Figures:
    import torch

    def operation(gradient: Any, x: Any, indices: Any) -> Any:
        return torch.ops.aten.max_pool2d_with_indices_backward(
            gradient, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices
        )

    x = torch.arange(24.0).reshape(1, 1, 4, 6)
    _, indices = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    gradient = torch.tensor([[[[1.0, -2.0, 5.0], [3.0, 4.0, -6.0]]]])
    truth = torch.zeros(24).index_add(0, indices.flatten(), gradient.flatten()).reshape(x.shape)
    return measure_twice(load, operation, (gradient, x, indices), truth)


def judge(figures: Figures) -> Judgement:
    first, second = figures["first"], figures["second"]
    return Judgement(
        not (first <= 1e-6 and second <= 1e-6),
        f"one program, run twice on the same input: gradient off by {first:.3g}, then {second:.3g} "
        "of its largest entry",
    )


PROBE = Probe("run the gradient of a 2x2 max pool twice in the same memory", measure, judge)
