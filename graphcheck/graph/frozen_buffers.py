"""Buffers that forward changes in a way that no export keeps.

`self.mean.data = ...` puts other memory under a tensor, which `torch.export` (2.14) does not see;
an assignment of another shape has no place in a program, whose buffers have one shape each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphcheck.graph.gradient_hooks import copied_with_hooks
from graphcheck.graph.precheck import Problem, off_by
from graphcheck.graph.surroundings import Surroundings
from graphcheck.graph.wrong_gradients import (
    WrongGradients,
    gradients_of,
    wrong_loss_or_gradients,
)
from graphcheck.workload.types import Workload

__all__ = ["frozen_buffers"]


def frozen_buffers(workload: Workload, names: Sequence[str]) -> Problem | None:
    """GC016 for buffers that stay as they are in the program; None where none of them matters.

    One that keeps its shape matters always: what is trained is not all that reads it. One of
    another shape, such as a mask that grows with the input, does where gradients or loss show it.
    """
    module = copied_with_hooks(workload.module)
    around = Surroundings(workload.module)
    try:
        with around.kept():
            constant = gradients_of(workload, module)
    except Exception:
        return None  # what is wrong with it is told where it is traced
    after = {name: _buffer(module, name) for name in names}
    second = copied_with_hooks(workload.module)
    kept = [name for name in names if _same_form(_buffer(second, name), after[name])]
    for name, value in after.items():
        path, _, own = name.rpartition(".")
        second.get_submodule(path)._buffers[own] = value.detach().clone()
    try:
        with around.kept():
            later = gradients_of(workload, second)
        wrong = wrong_loss_or_gradients(later, constant, workload.prefix)
    except Exception:
        wrong = None  # another shape may not fit any more
    if wrong is None and not kept:
        return None
    told = [name.removeprefix(workload.prefix) for name in (names if wrong else kept)]
    return Problem(
        "GC016",
        f"Export keeps the buffer {', '.join(told)} as it was while tracing, but forward changes "
        f"it{_effect(wrong)}",
        f"Write it in place: self.{told[0].rpartition('.')[2]}.copy_(...), in one shape.",
        module=told[0].rpartition(".")[0],
    )


def _effect(wrong: WrongGradients | None) -> str:
    return f": at step 1 {off_by(wrong)}" if wrong else "."


def _buffer(module: Any, name: str) -> Any:
    path, _, own = name.rpartition(".")
    return module.get_submodule(path)._buffers.get(own)


def _same_form(before: Any, after: Any) -> bool:
    if before is None or after is None:
        return False
    return bool(before.shape == after.shape and before.dtype == after.dtype)
