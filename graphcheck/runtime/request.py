"""Whether a request fits its program: told before anything is started."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphcheck.counted import counted
from graphcheck.errors import UsageError
from graphcheck.graph.pte import PteMethod, PteValue
from graphcheck.options import MOST_NUMBER, MOST_SECONDS
from graphcheck.runtime.types import ArrayInput, TrainRequest

__all__ = ["check_batches", "check_request", "tensor_inputs"]


def check_request(
    request: TrainRequest,
    method: PteMethod,
    inputs: tuple[int, ...],
    optimizers: Collection[str],
    fills: Collection[str],
) -> None:
    """Raises UsageError for what the runner does not have, or batches that do not fit."""
    if request.optimizer not in optimizers:
        known = ", ".join(sorted(optimizers))
        raise UsageError(f"the runner has no optimizer {request.optimizer!r} (it has: {known})")
    if request.fill not in fills:
        raise UsageError(f"no such fill: {request.fill!r} (there are: {', '.join(fills)})")
    if request.steps < 0 or not request.timeout > 0:
        raise UsageError("steps must be 0 or more, and the time limit above 0")
    if request.steps > MOST_NUMBER or request.timeout > MOST_SECONDS:
        raise UsageError(
            f"steps must be at most {MOST_NUMBER}, and the time limit {MOST_SECONDS:.0f} s"
        )
    if not request.batches and (request.steps or request.detect_stale):
        raise UsageError("there is no batch to train on")
    if request.checked:
        check_batches(request.batches, method, inputs)


def check_batches(
    batches: Sequence[tuple[ArrayInput, ...]], method: PteMethod, inputs: tuple[int, ...]
) -> None:
    """Raises UsageError for batches of another number, dtype or shape of arrays.

    The runtime itself compares no more than the number of elements where a shape is dynamic.
    """
    for number, batch in enumerate(batches):
        if len(batch) != len(inputs):
            raise UsageError(
                f"batch {number} has {counted(len(batch), 'array')}, "
                f"method {method.name!r} takes {counted(len(inputs), 'tensor')}"
            )
        for position, array in zip(inputs, batch, strict=True):
            value = method.values[method.inputs[position]]
            if array.dtype != value.dtype or not _fits(array.shape, value):
                most = "at most " if value.dynamism != "static" else ""
                raise UsageError(
                    f"input {position} of method {method.name!r} is {most}{value.dtype}"
                    f"{list(value.shape)}, batch {number} gives {array.dtype}{list(array.shape)}"
                )


def _fits(shape: tuple[int, ...], value: PteValue) -> bool:
    if len(shape) != len(value.shape):
        return False
    if value.dynamism == "static":
        return tuple(shape) == tuple(value.shape)
    if value.dynamism == "unbound":
        return True
    return all(size <= most for size, most in zip(shape, value.shape, strict=True))


def tensor_inputs(method: PteMethod) -> tuple[int, ...]:
    """Positions of the inputs that are tensors."""
    return tuple(i for i, v in enumerate(method.inputs) if method.values[v].kind == "tensor")
