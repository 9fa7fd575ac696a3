"""`--with-inference`: a method that predicts with the weights that the program trains.

It is the user's model in eval mode, without the loss, at the same weights: parameters that train
and buffers that training writes are at one place in memory (`graphcheck.runtime.placement`). The
proof is a run in the runtime: predictions before and after training steps, against eager.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphcheck.errors import GraphcheckError, UsageError
from graphcheck.export.rewriting import Rewritten, look, rewrite, rewrite_records
from graphcheck.export.types import ExportOptions, Inference, InputFact
from graphcheck.graph.capture import exported_program
from graphcheck.graph.pte import read_pte
from graphcheck.graph.trace import MARK, Traced
from graphcheck.opset.types import Opset
from graphcheck.rewrite.plan import Choice
from graphcheck.runtime.lower import Lowered
from graphcheck.runtime.types import TrainRequest
from graphcheck.validate.batches import array_input, device_batches, eager_batches
from graphcheck.validate.devices import open_device
from graphcheck.validate.noise import AMPLITUDE, noise_mode, unit
from graphcheck.validate.optimizer import settings_of
from graphcheck.validate.oracle import Oracle
from graphcheck.worker import progress
from graphcheck.workload.example_inputs import dynamic_shapes
from graphcheck.workload.types import Workload

__all__ = ["METHOD", "Prediction", "inference_facts", "inference_method", "prove_inference"]

METHOD = "predict"
_STEPS = 2
"""Training steps between the two predictions that are compared."""
_PAIRS = range(3)


@dataclass(frozen=True)
class Prediction:
    """How a workload predicts: `workload` is its module with that for a forward, and its inputs."""

    workload: Workload

    @classmethod
    def of(cls, workload: Workload) -> Prediction:
        """Raises UsageError for a model that gives nothing but its loss."""
        arguments, by_name = _arguments(workload)
        twin = _twin(workload.module, workload.prefix)
        shapes = workload.dynamic_shapes
        if shapes is not None:
            shapes = dynamic_shapes(twin, arguments, by_name)
        return cls(
            replace(
                workload,
                module=twin,
                inputs=arguments,
                kwargs=by_name,
                dynamic_shapes=shapes,
                batches=(),
            )
        )

    def run(self, module: Any) -> list[Any]:
        """What `module`, a copy of the workload's, predicts in eval mode: float64 arrays."""
        import torch
        from torch.utils._pytree import tree_leaves

        twin = _twin(module, self.workload.prefix)
        with evaluating(module), torch.no_grad():
            output = twin(*self.workload.inputs, **self.workload.kwargs)
        return [
            leaf.detach().double().numpy()
            for leaf in tree_leaves(output)
            if isinstance(leaf, torch.Tensor)
        ]


@contextlib.contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """The module and all it holds in eval mode for a while; each mode comes back."""
    modes = {child: child.training for child in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for child, training in modes.items():
            child.training = training


def _arguments(workload: Workload) -> tuple[tuple[Any, ...], dict[str, Any]]:
    count = getattr(workload.module, "predicts", None)
    if count is not None:
        return workload.inputs[:count], workload.kwargs
    inner = _inner(workload.module, workload.prefix)
    name = type(inner).__name__
    if not callable(getattr(inner, "predict", None)):
        raise UsageError(
            f"--with-inference: forward of {name} computes the loss itself, so there is no "
            "prediction to export",
            "give the model a method predict() that takes some of forward's arguments, or let "
            "forward return predictions and name the loss (--loss, get_loss())",
        )
    bound = inspect.signature(inner.forward).bind(*workload.inputs, **workload.kwargs)
    bound.apply_defaults()
    found: dict[str, Any] = {}
    for parameter in inspect.signature(inner.predict).parameters.values():
        if parameter.name in bound.arguments:
            found[parameter.name] = bound.arguments[parameter.name]
        elif parameter.default is parameter.empty:
            raise UsageError(
                f"--with-inference: predict() of {name} takes {parameter.name!r}, which forward "
                "does not take",
                "give the arguments of predict() the names they have in forward",
            )
    return (), found


def _inner(module: Any, prefix: str) -> Any:
    return module.get_submodule(prefix.rstrip(".")) if prefix else module


def _twin(module: Any, prefix: str) -> Any:
    """The module, sharing all it holds, with the prediction for a forward: names stay."""
    count = getattr(module, "predicts", None)
    inner = _inner(module, prefix)
    predict = type(inner).forward if count is not None else type(inner).predict

    class Predicting(type(module)):  # type: ignore[misc]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            own = _inner(self, prefix)
            return (
                own(*args, **kwargs)
                if prefix and count is not None
                else predict(own, *args, **kwargs)
            )

    # Inputs are called in the program as the user calls them.
    Predicting.forward.__signature__ = inspect.signature(predict)  # type: ignore[attr-defined]
    twin = copy.copy(module)
    twin.__class__ = Predicting
    return twin


def inference_method(prediction: Prediction, opset: Opset, choice: Choice) -> Rewritten:
    """The method as an exported program, with the rewrites it needs. Raises ModelError."""
    workload = prediction.workload
    progress("exporting the inference method")
    with evaluating(workload.module):
        exported, strict = exported_program(workload)
    state = look(_decomposed(exported, strict=strict), workload, opset)
    return rewrite(state, workload, opset, choice, again=_decomposed)


def _decomposed(exported: Any, *, strict: bool) -> Traced:
    for node in exported.graph.nodes:
        if node.op == "call_function":
            node.meta["custom"] = {**(node.meta.get("custom") or {}), MARK: node.name}
    return Traced(exported, exported.run_decompositions(), (), strict)


def inference_facts(lowered: Lowered, rewritten: Rewritten) -> Inference:
    """What the card says of the method before it runs."""
    method = read_pte(lowered.program or b"").method(METHOD)
    own, shared = [*method.buffer_sizes[1:], 0, 0][:2]
    return Inference(
        method=METHOD,
        inputs=tuple(InputFact(n, f.dtype, f.shape) for n, f in rewritten.graph.inputs),
        outputs=len(method.outputs),
        shared_memory=2,
        shared_bytes=shared,
        arena_bytes=own,
        rewrites=rewrite_records(rewritten.records),
    )


def prove_inference(
    facts: Inference,
    prediction: Prediction,
    workload: Workload,
    program: Path,
    weights: Path | None,
    options: ExportOptions,
) -> Inference:
    """Predict in the runtime before and after training steps and compare with eager.

    Raises GraphcheckError when it does not run or does not agree.
    """
    progress("predicting in the runtime before and after training")
    leaves = (prediction.workload.inputs, prediction.workload.kwargs)
    trace = open_device(options.on[0], options).train(
        TrainRequest(
            program=program,
            weights=weights,
            batches=device_batches(workload),
            steps=_STEPS + 1,
            learning_rate=options.learning_rate,
            optimizer=options.optimizer,
            settings=settings_of(options),
            kernel_libraries=tuple(Path(name) for name in options.kernel_libraries),
            timeout=options.timeout,
            evaluation=METHOD,
            evaluate_after=(0, _STEPS),
            evaluation_batches=(_arrays(leaves),),
        )
    )
    if trace.failure is not None:
        raise GraphcheckError(f"the inference method does not run: {trace.failure.message}")
    before, after = (evaluation.outputs for evaluation in trace.evaluations)
    trained = trace.steps[_STEPS].parameters
    error_before, _ = _compare(prediction, workload, options, before, None, "before training")
    error_after, scale = _compare(
        prediction, workload, options, after, trained, f"after {_STEPS} training steps"
    )
    return replace(
        facts,
        steps=_STEPS,
        error_before=error_before,
        error_after=error_after,
        moved=_distance(before, after) / scale,
    )


def _arrays(arguments: Any) -> tuple[Any, ...]:
    import torch
    from torch.utils._pytree import tree_leaves

    return tuple(array_input(x) for x in tree_leaves(arguments) if isinstance(x, torch.Tensor))


def _compare(
    prediction: Prediction,
    workload: Workload,
    options: ExportOptions,
    got: tuple[Any, ...],
    trained: Mapping[str, Any] | None,
    when: str,
) -> tuple[float, float]:
    """Relative error of a prediction of the runtime, and the largest entry. Raises if too large."""
    from contextlib import nullcontext

    def eager(noise: Any = None) -> list[Any]:
        # What training leaves in the buffers is computed here, too, and with the same noise.
        oracle = Oracle(
            workload,
            learning_rate=options.learning_rate,
            optimizer=options.optimizer,
            settings=settings_of(options),
            batches=eager_batches(workload),
        )
        if trained is not None:
            for step in range(_STEPS):
                oracle.step(step, update=True, mode=noise(step) if noise else None)
            oracle.load(trained)
        with noise(_STEPS) if noise else nullcontext():
            return prediction.run(oracle.module)

    expected = eager()
    scale = max([_largest(array) for array in expected], default=0.0) or 1.0
    error = _distance(got, expected)
    tolerance = AMPLITUDE * unit(_lowest(workload)) * scale
    for pair in _PAIRS:
        changes = [
            _distance(
                eager(lambda step, sign=sign, pair=pair: noise_mode(sign, 7919 * pair + step)),
                expected,
            )
            for sign in (1, -1)
        ]
        tolerance = max(tolerance, sum(changes))
    if not error <= tolerance:
        raise GraphcheckError(
            f"the inference method is off by {error / scale:.2g} of its largest entry {when}, "
            f"where rounding explains {tolerance / scale:.2g}",
            "nothing was written; please report this, or leave --with-inference out",
        )
    return error / scale, scale


def _lowest(workload: Workload) -> Any:
    dtypes = {p.dtype for p in workload.module.parameters() if p.is_floating_point()}
    return max(dtypes, key=unit)


def _largest(array: Any) -> float:
    import numpy

    return float(numpy.abs(array).max(initial=0.0))


def _distance(one: Any, other: Any) -> float:
    """Largest difference of two lists of arrays; NaN where their shapes differ."""
    import numpy

    if len(one) != len(other):
        return float("nan")
    worst = 0.0
    for a, b in zip(one, other, strict=True):
        a, b = (numpy.asarray(array, dtype=numpy.float64) for array in (a, b))
        if a.shape != b.shape:
            return float("nan")
        difference = _largest(a - b)
        worst = difference if not difference <= worst else worst
    return worst
