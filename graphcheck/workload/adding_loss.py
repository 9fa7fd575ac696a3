"""Adding the loss: the user's own, a named one, or a guess that is told."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphcheck.errors import ModelError
from graphcheck.workload.example_inputs import shown_forward
from graphcheck.workload.heads import describe_heads, heads, shown_output, tensors_of
from graphcheck.workload.losses import LOSSES, Loss, loss_like, loss_named, made_up_target
from graphcheck.workload.probe import probe
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.targets.interface import Loaded
from graphcheck.workload.user_code import describe_exception
from graphcheck.workload.with_loss import composed_loss, detach_others, with_loss

__all__ = ["WithLoss", "add_loss"]

_TARGET_SEED = 1_000_003


@dataclass(frozen=True)
class WithLoss:
    """The module with a loss, the targets that follow its inputs, and the loss of a forward pass
    on the example data, None where there was none."""

    module: Any
    targets: tuple[Any, ...] = ()
    value: float | None = None


def add_loss(
    loaded: Loaded,
    request: WorkloadRequest,
    inputs: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    guesses: list[str],
) -> WithLoss:
    """Add the loss that is given, named or guessed. Raises ModelError."""
    if loaded.loss is not None:
        return _with_users_loss(loaded, request, inputs, kwargs, guesses)
    loss = loss_named(request.loss) if request.loss else None
    targets = _as_targets(loaded.targets)
    output = None
    if loaded.prediction_shape is None or (loss is None and not loaded.trained_with):
        output = probe(
            loaded.module,
            inputs,
            kwargs,
            hint=f"Give inputs that {shown_forward(loaded.module)} accepts.",
            folder=loaded.folder,
        )
    if loss is None and loaded.trained_with:
        loss = LOSSES[loaded.trained_with]
        guesses.append(f"No loss was given; {loss.name} was used.")
    if loss is None:
        tensors = tensors_of(output)
        if any(map(_is_loss, tensors)) and not _predicts(loaded, inputs, kwargs, tensors):
            more = len(tensors) > 1 and _is_loss(tensors[0])
            if more and _others_carry_gradients(loaded, inputs, kwargs):
                guesses.append(
                    "forward returns more than the loss; gradients of the other outputs were cut "
                    "off (detached), since ExecuTorch trains on output 0 alone."
                )
                module = detach_others(loaded.module, inputs, list(kwargs))
                return WithLoss(module, value=float(tensors[0]))
            return WithLoss(
                loaded.module, value=float(tensors[0]) if _is_loss(tensors[0]) else None
            )
        if not tensors:
            raise ModelError(
                f"forward returns {type(output).__name__}, which holds no tensor to train on.",
                "Return the loss, or predictions together with --loss.",
                "GC005",
            )
        loss = _guessed_loss(output, inputs, targets, guesses, loaded.sequence)
    if output is not None:
        sentence = describe_heads(output, sequence=loaded.sequence)
        if sentence:
            guesses.append(sentence)
    if not targets and loss.target != "none":
        shape, dtype = _prediction(loaded, output, (*inputs, *kwargs.values()))
        targets = (made_up_target(loss, shape, dtype, request.seed + _TARGET_SEED),)
        guesses.append(_describe_target(loss, targets[0]))
    compute = composed_loss(loss, sequence=loaded.sequence)
    module = with_loss(loaded.module, inputs, list(kwargs), compute, len(targets))
    return WithLoss(module, targets, _value(compute, output, targets))


def _value(compute: Callable[..., Any], output: Any, targets: tuple[Any, ...]) -> float | None:
    """The loss of a prediction; None without one, or where it cannot be computed."""
    import torch

    if output is None:
        return None
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            return float(compute(output, *targets))
    except IndexError as error:
        # A label that is no class, which an export does not look at.
        why = describe_exception(error).rstrip(".")
        hint = "Give targets that fit the prediction: labels from 0 to the number of classes - 1."
        if isinstance(output, Mapping):
            hint += (
                f" forward returns {shown_output(output)}; for another part of it give a loss "
                "function of your own (get_loss() in the model file, or loss=)."
            )
        raise ModelError(
            f"the loss cannot be computed on the example targets: {why}.",
            hint,
            "GC002",
        ) from error
    except Exception:
        # Export runs into it, and tells of it.
        return None


def _others_carry_gradients(
    loaded: Loaded, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    output = probe(loaded.module, inputs, kwargs, folder=loaded.folder, gradients=True)
    return any(tensor.requires_grad for tensor in tensors_of(output)[1:])


def _predicts(
    loaded: Loaded, inputs: tuple[Any, ...], kwargs: Mapping[str, Any], tensors: Sequence[Any]
) -> bool:
    """Whether the numbers among the outputs are statistics: a prediction alone has a gradient."""
    if _is_loss(tensors[0]):
        return False
    output = probe(loaded.module, inputs, kwargs, folder=loaded.folder, gradients=True)
    training = [tensor for tensor in tensors_of(output) if tensor.requires_grad]
    return bool(training) and not any(map(_is_loss, training))


def _is_loss(tensor: Any) -> bool:
    return bool(tensor.dim() == 0 and tensor.is_floating_point())


def _as_targets(targets: Any) -> tuple[Any, ...]:
    if targets is None:
        return ()
    return tuple(targets) if isinstance(targets, list | tuple) else (targets,)


def _prediction(
    loaded: Loaded, output: Any, inputs: tuple[Any, ...]
) -> tuple[tuple[int, ...], Any]:
    import torch

    if output is None:
        assert loaded.prediction_shape is not None
        return loaded.prediction_shape(inputs), torch.float32
    found = heads(output, sequence=loaded.sequence)
    if not found:
        raise ModelError(
            f"forward returns {type(output).__name__}, which holds no tensor to train on.",
            "Return predictions as tensors.",
            "GC005",
        )
    tensor = found[-1 if loaded.sequence else 0][2]
    return tuple(tensor.shape), tensor.dtype


def _describe_target(loss: Loss, target: Any) -> str:
    shown = f"{str(target.dtype).removeprefix('torch.')}{list(target.shape)}".replace(" ", "")
    kind = "class indices" if loss.target == "class" else "values"
    return f"No targets were given; random {kind} {shown} were used."


def _guessed_loss(
    output: Any,
    inputs: tuple[Any, ...],
    targets: tuple[Any, ...],
    guesses: list[str],
    sequence: bool,
) -> Loss:
    import torch

    prediction = heads(output, sequence=sequence)[0][2]
    shape = tuple(prediction.shape)
    shown = f"{str(prediction.dtype).removeprefix('torch.')}{list(shape)}".replace(" ", "")
    same_as_input = any(
        isinstance(leaf, torch.Tensor) and tuple(leaf.shape) == shape for leaf in inputs
    )
    labels = any(
        isinstance(leaf, torch.Tensor) and leaf.dtype == torch.int64 and tuple(leaf.shape) == shape
        for leaf in inputs
    )
    if len(shape) == 1 and prediction.is_floating_point() and labels and not targets:
        raise ModelError(
            f"forward returns {shown}, one number for each of its class indices: this looks like a "
            "loss without reduction, and a loss has to be a scalar.",
            "Return loss.mean() or loss.sum(); if these are predictions, say so with --loss mse.",
            "GC005",
        )
    looks_like_classes = (len(shape) == 2 or len(shape) > 3) and shape[1] > 1
    if targets:
        of_classes = isinstance(targets[0], torch.Tensor) and not targets[0].is_floating_point()
    else:
        of_classes = looks_like_classes and not same_as_input
    name = "cross_entropy" if of_classes else "mse"
    guesses.append(f"forward returns {shown} and no loss was given; {name} was used.")
    return LOSSES[name]


def _with_users_loss(
    loaded: Loaded,
    request: WorkloadRequest,
    inputs: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    guesses: list[str],
) -> WithLoss:
    targets = _as_targets(loaded.targets)
    output = None
    if not targets and _arguments_of(loaded.loss) != 1:
        known = loss_like(loaded.loss)
        if known is None:
            raise ModelError(
                "The loss is called with output and targets, but there are no example targets.",
                "Add get_example_targets() to the model file, or pass targets=.",
                "GC002",
            )
        output = probe(loaded.module, inputs, kwargs, folder=loaded.folder)
        shape, dtype = _prediction(loaded, output, inputs)
        targets = (made_up_target(known, shape, dtype, request.seed + _TARGET_SEED),)
        guesses.append(_describe_target(known, targets[0]))
    module = with_loss(loaded.module, inputs, list(kwargs), loaded.loss, len(targets))
    return WithLoss(module, targets, _value(loaded.loss, output, targets))


def _arguments_of(loss: Any) -> int:
    from torch import nn

    try:
        parameters = inspect.signature(
            loss.forward if isinstance(loss, nn.Module) else loss
        ).parameters.values()
    except (TypeError, ValueError):
        return 2
    return sum(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in parameters
    )
