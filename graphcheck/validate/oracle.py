"""The oracle: the same module trained by eager PyTorch from the same weights.

Free running it trains on its own; locked, its weights are set to the runtime's before each step, so
that no error of an earlier step is carried over. Every step gives the loss, the gradient of every
trainable parameter, and (when asked) the tolerance that float rounding calls for.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from graphcheck.errors import ModelError, UsageError
from graphcheck.graph.gradient_hooks import copied_with_hooks
from graphcheck.graph.module_state import ModuleState
from graphcheck.graph.surroundings import Surroundings
from graphcheck.runtime.types import OptimizerSettings
from graphcheck.spill import park_
from graphcheck.validate.measure import largest
from graphcheck.validate.noise import AMPLITUDE, noise_mode, unit
from graphcheck.validate.optimizer import OPTIMIZERS, make_optimizer
from graphcheck.workload.seeding import seeded
from graphcheck.workload.types import Workload
from graphcheck.workload.user_code import running_user_code

__all__ = ["EagerStep", "Oracle", "Tolerances"]


@dataclass(frozen=True)
class Tolerances:
    """Largest absolute error that rounding explains, of the loss and of each gradient."""

    loss: float
    gradients: Mapping[str, float] = field(default_factory=dict)

    def merged(self, other: Tolerances) -> Tolerances:
        """The larger of both, quantity by quantity."""
        return Tolerances(
            max(self.loss, other.loss),
            {
                name: max(self.gradients.get(name, 0.0), other.gradients.get(name, 0.0))
                for name in {**self.gradients, **other.gradients}
            },
        )


@dataclass(frozen=True)
class EagerStep:
    """Loss and gradients of one step, by the names of the module.

    Gradients are numpy arrays of the parameter's own dtype (of 16 bits: as float32).
    """

    loss: float
    gradients: dict[str, Any]

    def doubles(self) -> dict[str, Any]:
        """Copies of the gradients as float64, to compute with."""
        import numpy

        return {n: numpy.array(g, dtype=numpy.float64) for n, g in self.gradients.items()}


_SEED = 20_000_003
_STEP = "a training step failed in eager PyTorch"
_STEP_HINT = "The model's own code raises it, in ordinary PyTorch, too: mend it there."


class Oracle:
    """Eager training of a copy of the workload's module with an optimizer of torch.optim.

    `batches` are (args, kwargs) pairs, used in turn; the workload's own inputs by default.
    `aliases` maps every name of a parameter to the name of the tensor it shares (tied weights).
    The workload's module is not changed.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        learning_rate: float,
        optimizer: str = "sgd",
        settings: OptimizerSettings = OptimizerSettings(),  # noqa: B008 (frozen)
        batches: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (),
    ) -> None:
        if optimizer not in OPTIMIZERS:
            raise UsageError(
                f"optimizer {optimizer!r} cannot be compared with eager training",
                f"choose one of {', '.join(OPTIMIZERS)}",
            )
        try:
            self.module = copied_with_hooks(workload.module)
        except Exception as error:
            raise ModelError(
                f"the model cannot be copied, so eager cannot start from the same weights: {error}",
                "let the model hold parameters, buffers and plain values only",
            ) from error
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.settings = settings
        self._updating: Any = None
        self.batches = batches or ((workload.inputs, workload.kwargs),)
        self.parameters: dict[str, Any] = dict(self.module.named_parameters())
        by_identity = {id(tensor): name for name, tensor in self.parameters.items()}
        self.aliases: dict[str, str] = {
            name: by_identity[id(tensor)]
            for name, tensor in self.module.named_parameters(remove_duplicate=False)
        }
        self.trainable = tuple(
            name for name, tensor in self.parameters.items() if tensor.requires_grad
        )
        self._surroundings = Surroundings(workload.module)
        self._beginning = self._surroundings.now()
        self.rest()
        self.around: Callable[[int], AbstractContextManager[Any]] = lambda index: nullcontext()
        """The context of forward and backward of a step: a replay of random draws, or nothing."""

    def state(self) -> dict[str, Any]:
        """Copies of the parameters as numpy arrays (bfloat16 as float32), by name."""
        return {name: _array(tensor).copy() for name, tensor in self.parameters.items()}

    def load(self, arrays: Mapping[str, Any]) -> None:
        """Set parameters to arrays; names may be aliases. Raises KeyError for an unknown name."""
        import torch

        with torch.no_grad():
            for name, array in arrays.items():
                tensor = self.parameters[self.aliases[name]]
                tensor.copy_(torch.tensor(array).reshape(tensor.shape))

    def rest(self) -> None:
        """Let go of what the last step left, and of memory for weights until they change.

        What the user's functions have changed outside of the model is as it was in the beginning.
        """
        self._beginning()
        for parameter in self.parameters.values():
            parameter.grad = None
        park_(self.module)

    def now(self) -> ModuleState:
        """All that forward may change, as it is now."""
        return ModuleState(self.module, self._surroundings)

    def step(
        self,
        index: int,
        *,
        update: bool = False,
        mode: AbstractContextManager[Any] | None = None,
        keep_state: bool = False,
        seed: int | None = None,
    ) -> EagerStep:
        """Forward and backward on batch `index`; `update` moves the weights as the runtime does.

        `mode` is entered around both. What forward changes (buffers, attributes, generators) moves
        on, unless `keep_state`.
        What the model draws follows from `seed`, by default from the index alone.
        """
        loss = self._pass(index, mode, keep_state, seed)
        result = EagerStep(
            loss=loss,
            gradients={
                name: _array(self.parameters[name].grad)
                for name in self.trainable
                if self.parameters[name].grad is not None
            },
        )
        if update:
            self._update()
        return result

    def _pass(
        self,
        index: int,
        mode: AbstractContextManager[Any] | None,
        keep_state: bool,
        seed: int | None = None,
    ) -> float:
        """Forward and backward, which leaves the gradients at the parameters; gives the loss."""

        args, kwargs = self.batches[index % len(self.batches)]
        saved = self.now() if keep_state else None
        for parameter in self.parameters.values():
            parameter.grad = None
        # The user's inputs must stay as they are, even if forward writes into them.
        args, kwargs = _cloned(args), _cloned(kwargs)
        # Draws that change from pass to pass would be taken for what rounding can do. Around comes
        # last: its own draws must not pass through the noise.
        with (
            seeded(_SEED + index if seed is None else seed),
            running_user_code(_STEP, hint=_STEP_HINT, code="GC014") if mode is None else mode,
            self.around(index),
        ):
            output = self.module(*args, **kwargs)
            loss = _first(output)
            loss.backward()
        if saved is not None:
            saved.put()
        return float(loss.detach().double())

    def maker_of_nan(self, index: int) -> str:
        """`SqrtBackward0`, the first backward function with NaN for a result; "" for none."""
        import torch

        with warnings.catch_warnings(), torch.autograd.detect_anomaly():
            warnings.simplefilter("ignore")
            try:
                self.step(index, mode=nullcontext())
            except RuntimeError as error:
                found = re.search(r"Function '(\w+)' returned nan", str(error))
                return found[1] if found else ""
        return ""

    def forward(self, index: int, mode: AbstractContextManager[Any]) -> None:
        """Forward alone on batch `index`, under `mode`: state and gradients stay as they are."""
        args, kwargs = self.batches[index % len(self.batches)]
        saved = self.now()
        with mode:
            self.module(*_cloned(args), **_cloned(kwargs))
        saved.put()

    def _update(self) -> None:
        if self._updating is None:
            trained = [self.parameters[name] for name in self.trainable]
            self._updating = make_optimizer(
                self.optimizer, trained, self.learning_rate, self.settings
            )
        self._updating.step()

    def tolerances(
        self,
        index: int,
        reference: EagerStep,
        *,
        pairs: range = range(2),
    ) -> Tolerances:
        """What rounding can change in this step, by stochastic arithmetic (`validate.noise`).

        Each pair of passes draws opposite noise. The changes of the two are added, for jumps at
        kinks may come on top of each other, and the largest sum over the pairs is the tolerance.

        The floor of each gradient is tied to the largest entry of all gradients of the step: a
        gradient that is truly zero, such as that of a bias before a norm, is still computed from
        large terms that cancel.
        """
        dtype = min(
            (self.parameters[name].dtype for name in self.trainable), key=_precision, default=None
        )
        u = unit(dtype) if dtype is not None else 2.0**-24
        floor = AMPLITUDE * u * _largest(reference.gradients.values())
        loss = AMPLITUDE * u * abs(reference.loss)
        gradients = dict.fromkeys(reference.gradients, floor)
        for pair in pairs:
            changes = [
                self._change(index, reference, noise_mode(sign, 7919 * pair + index))
                for sign in (1, -1)
            ]
            loss = max(loss, sum(change.loss for change in changes))
            for name in gradients:
                both = sum(change.gradients[name] for change in changes)
                gradients[name] = max(gradients[name], both)
        return Tolerances(loss, gradients)

    def _change(
        self,
        index: int,
        reference: EagerStep,
        mode: AbstractContextManager[Any],
    ) -> Tolerances:
        """How far one perturbed pass is from the reference."""
        try:
            loss = abs(self._pass(index, mode, keep_state=True) - reference.loss)
        except NotImplementedError as error:
            found = re.search(r"HigherOrderOperator (\w+)", str(error))
            if found is None:
                raise
            raise ModelError(
                f"what rounding can change cannot be measured through the control flow operator "
                f"{found[1]}, so there is no tolerance to judge by",
                "compute both sides and choose with torch.where",
            ) from error
        return Tolerances(
            # A perturbed pass that overflows says nothing about rounding.
            loss if loss < float("inf") else 0.0,
            {
                # One at a time: a large model has no room for all of them twice.
                name: _moved(self.parameters[name].grad, gradient)
                for name, gradient in reference.gradients.items()
            },
        )


def _moved(gradient: Any, reference: Any) -> float:
    """How far a gradient is from the reference; None is zero."""
    if gradient is None:
        return largest(reference)
    return largest(_array(gradient).astype("float64") - reference)


def _precision(dtype: Any) -> float:
    return -unit(dtype)


def _largest(arrays: Iterable[Any]) -> float:
    """Largest absolute entry of all arrays, non-finite ones left out; 0 without any."""
    return max(map(largest, arrays), default=0.0)


def _first(output: Any) -> Any:
    """The loss: output 0 of a module that returns a tensor, a tuple or a dict."""
    import torch

    while not isinstance(output, torch.Tensor):
        output = next(iter(output.values())) if isinstance(output, Mapping) else output[0]
    return output


def _cloned(value: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), value)


def _array(tensor: Any) -> Any:
    """A view: a step leaves the gradients of the step before as they are."""
    import torch

    plain = tensor.detach()
    plain = plain.to_dense() if plain.is_sparse else plain
    return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy()
