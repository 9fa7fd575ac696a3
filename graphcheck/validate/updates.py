"""The runtime's updates of the weights, followed with torch.optim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        self.parameters: dict[str, Any] = {}
        self.optimizer: Any = None

    def first_wrong(
        self, trace: Trace, index: int, told: Callable[[str], str]
    ) -> tuple[Divergence, str] | None:
        """The first parameter whose next weights are not what the optimizer makes; its words."""
        following = trace.steps[index + 1 : index + 2]
        if not following:
            return None
        record = trace.steps[index]
        expected = self._expected(record)
        for name, wanted in expected.items():
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

    def _expected(self, record: StepRecord) -> Mapping[str, Any]:
        """The weights after the step, float64, by the names of the record."""
        import torch

        usable = {
            name: gradient
            for name, gradient in record.gradients.items()
            if name in self.oracle.aliases and self._fits(record.parameters.get(name), gradient)
        }
        if self.optimizer is None:
            for name in usable:
                like = self.oracle.parameters[self.oracle.aliases[name]]
                self.parameters[name] = torch.empty_like(like, requires_grad=True)
            if not self.parameters:
                return {}
            self.optimizer = make_optimizer(
                self.oracle.optimizer,
                self.parameters.values(),
                self.oracle.learning_rate,
                self.oracle.settings,
            )
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.grad = None
                if name in usable:
                    parameter.copy_(_tensor(record.parameters[name]).reshape(parameter.shape))
                    gradient = _tensor(usable[name]).reshape(parameter.shape)
                    parameter.grad = gradient.to(parameter.dtype)
        self.optimizer.step()
        return {
            name: self.parameters[name].detach().double().numpy()
            for name in usable
            if name in self.parameters
        }

    @staticmethod
    def _fits(weight: Any, gradient: Any) -> bool:
        import numpy

        return weight is not None and numpy.shape(weight) == numpy.shape(gradient)


def _tensor(array: Any) -> Any:
    import torch

    return torch.tensor(array)
