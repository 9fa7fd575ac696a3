"""The runtime's updates of the weights, followed with torch.optim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from graphcheck.runtime.types import OptimizerSettings, StepRecord, Trace
from graphcheck.validate.measure import largest, measure, relative
from graphcheck.validate.noise import AMPLITUDE, unit
from graphcheck.validate.optimizer import make_optimizer, told_optimizer
from graphcheck.validate.oracle import Oracle
from graphcheck.validate.types import Divergence

__all__ = ["Updates"]

_FORMULA = "weight - learning rate * gradient"


class Updates:
    """Follows the updates of a trace with torch.optim, on the runtime's own records.

    Nothing but the rounding of the update is between the two. Steps are to come in order.
    """

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.states: dict[str, Any] = {}
        """What the optimizer keeps for each parameter from step to step (its momentum)."""

    def first_wrong(
        self, trace: Trace, index: int, told: Callable[[str], str]
    ) -> tuple[Divergence, str] | None:
        """The first parameter whose next weights are not what the optimizer makes; its words."""
        following = trace.steps[index + 1 : index + 2]
        if not following:
            return None
        record = trace.steps[index]
        for name, wanted in self._expected(record):
            moved = following[0].parameters.get(name)
            if moved is None:
                continue
            error = measure(moved, wanted)
            dtype = self.oracle.parameters[self.oracle.aliases[name]].dtype
            before = record.parameters[name]
            size = max(largest(before), error.scale)
            tolerance = AMPLITUDE * unit(dtype) * size
            if not (error.absolute <= tolerance):
                divergence = Divergence(
                    step=index,
                    quantity=told(name),
                    runtime=error.runtime,
                    eager=error.eager,
                    error=relative(error.absolute, size),
                    tolerance=relative(tolerance, size),
                )
                return divergence, (
                    f"the update of {told(name)} at step {index} is not {self._formula()}: "
                    f"{error.runtime:.6g} in the runtime, {error.eager:.6g} expected"
                )
        return None

    def _formula(self) -> str:
        name, settings = self.oracle.optimizer, self.oracle.settings
        if name == "sgd" and settings == OptimizerSettings():
            return _FORMULA
        return f"that of torch.optim ({told_optimizer(name, self.oracle.learning_rate, settings)})"

    def _expected(self, record: StepRecord) -> Iterator[tuple[str, Any]]:
        """The weights after the step, float64, by the names of the record.

        One parameter at a time, each with an optimizer of its own: the optimizers here treat every
        entry by itself, and a large model has no room for all weights once more.
        """
        import torch

        for name, gradient in record.gradients.items():
            own = self.oracle.aliases.get(name)
            if own is None or not self._fits(record.parameters.get(name), gradient):
                continue
            like = self.oracle.parameters[own]
            parameter = torch.empty_like(like, requires_grad=True)
            with torch.no_grad():
                parameter.copy_(_tensor(record.parameters[name]).reshape(like.shape))
            parameter.grad = _tensor(gradient).reshape(like.shape).to(like.dtype)
            optimizer = make_optimizer(
                self.oracle.optimizer,
                [parameter],
                self.oracle.learning_rate,
                self.oracle.settings,
            )
            if name in self.states:
                optimizer.state[parameter] = self.states[name]
            optimizer.step()
            self.states[name] = optimizer.state[parameter]
            yield name, parameter.detach().double().numpy()

    @staticmethod
    def _fits(weight: Any, gradient: Any) -> bool:
        import numpy

        return weight is not None and numpy.shape(weight) == numpy.shape(gradient)


def _tensor(array: Any) -> Any:
    import torch

    return torch.tensor(array)
