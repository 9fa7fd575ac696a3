"""From what the user named to a `Workload`: model, example inputs and a scalar loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphcheck.errors import ModelError, UsageError
from graphcheck.workload.heads import describe_heads, heads, tensors_of
from graphcheck.workload.input_spec import InputSpec, make_tensor, parse_input
from graphcheck.workload.losses import LOSSES, Loss, loss_like, loss_named, made_up_target
from graphcheck.workload.probe import probe
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.targets.interface import Loaded, kind_of
from graphcheck.workload.types import Workload
from graphcheck.workload.user_code import shown_path
from graphcheck.workload.with_loss import PREFIX, composed_loss, detach_others, with_loss

__all__ = ["from_module", "load"]

_TARGET_SEED = 1_000_003


def load(request: WorkloadRequest) -> Workload:
    """Load a target.

    Runs the user's code, so call it in a child process. Raises UsageError for a request that
    cannot be meant, ModelError (codes GC001, GC002, GC005, GC009, GC012) for a model that cannot
    be used; nothing else.
    """
    specs = tuple(parse_input(text) for text in request.inputs)
    if request.loss:
        loss_named(request.loss)
    kind = kind_of(request.target)
    if request.num_classes is not None and kind.name != "torchvision":
        raise UsageError(
            "--num-classes works with torchvision targets only.",
            "Set the number of classes in your own model.",
        )
    loaded = kind.load(request)
    return _assemble(loaded, request, specs)


def from_module(
    module: Any,
    inputs: Any = None,
    loss: str | Callable[..., Any] | None = None,
    targets: Any = None,
    *,
    dynamic_batch: bool = False,
    seed: int = 0,
) -> Workload:
    """A `Workload` of a live module.

    `inputs` are a tensor, a tuple of positional or a dict of keyword arguments, or one or several
    input specifications (strings). `loss` is the name of a loss, or a function called with output
    and targets; leave it out when forward returns the loss. `targets` are a tensor or a tuple.
    Raises as `load` does.
    """
    from torch import nn

    if not isinstance(module, nn.Module):
        raise UsageError(
            f"The model is of type {type(module).__name__}, not a torch.nn.Module.",
            "Pass the module itself.",
        )
    texts: tuple[str, ...] = ()
    if isinstance(inputs, str):
        texts, inputs = (inputs,), None
    elif isinstance(inputs, list | tuple) and inputs and all(isinstance(i, str) for i in inputs):
        texts, inputs = tuple(inputs), None
    name = loss if isinstance(loss, str) else ""
    if name:
        loss_named(name)
    if loss is not None and not name and not callable(loss):
        raise UsageError(
            f"loss is of type {type(loss).__name__}, which cannot be called.",
            "Pass a function or module that is called with output and targets, or a loss's name.",
        )
    request = WorkloadRequest(
        target=type(module).__name__,
        inputs=texts,
        loss=name,
        dynamic_batch=dynamic_batch,
        seed=seed,
    )
    loaded = Loaded(
        module=module,
        inputs=inputs,
        loss=None if name else loss,
        targets=targets,
        file=_source_file(module),
    )
    return _assemble(loaded, request, tuple(parse_input(text) for text in texts))


def _source_file(module: Any) -> str:
    try:
        return inspect.getsourcefile(type(module)) or ""
    except (TypeError, OSError):
        return ""


def _assemble(loaded: Loaded, request: WorkloadRequest, specs: tuple[InputSpec, ...]) -> Workload:
    module = loaded.module
    guesses = list(loaded.guesses)
    inputs, kwargs = _example_inputs(loaded, request, specs, guesses)
    _check_binding(module, inputs, kwargs)
    _initialise_lazy(loaded, inputs, kwargs, guesses)
    _check_devices(module)
    wrapped, targets = _add_loss(loaded, request, inputs, kwargs, guesses)
    inputs = (*inputs, *targets)
    shapes = None
    if request.dynamic_batch:
        shapes = _dynamic_shapes(wrapped, inputs, kwargs)
    return Workload(
        module=wrapped,
        inputs=inputs,
        kwargs=kwargs,
        dynamic_shapes=shapes,
        prefix="" if wrapped is module else PREFIX,
        guesses=tuple(guesses),
        root_type=type(module).__name__,
        target=request.target,
        file=loaded.file,
    )


# Inputs


def _example_inputs(
    loaded: Loaded,
    request: WorkloadRequest,
    specs: tuple[InputSpec, ...],
    guesses: list[str],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if specs:
        return _made_up(specs, request.seed, guesses)
    if loaded.inputs is not None:
        return _as_arguments(loaded.module, loaded.inputs)
    if loaded.default_inputs:
        shown = ", ".join(loaded.default_inputs)
        guesses.append(f"No inputs were given; random {shown} was used.")
        return _made_up(
            tuple(parse_input(text) for text in loaded.default_inputs), request.seed, guesses
        )
    if not _required(loaded.module):
        return (), {}
    given = shown_path(loaded.file) if loaded.file else "the model"
    raise ModelError(
        f"There are no example inputs for {_shown_forward(loaded.module)} ({given}).",
        f"Give one --input for each argument, for instance {_example_options(loaded.module)}, or "
        f"add get_example_inputs() to the file.",
        "GC002",
    )


def _made_up(
    specs: Sequence[InputSpec], seed: int, guesses: list[str]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    inputs: list[Any] = []
    kwargs: dict[str, Any] = {}
    for index, spec in enumerate(specs):
        tensor = make_tensor(spec, seed * 1000 + index)
        if spec.name in kwargs:
            raise UsageError(f"The input {spec.name!r} is given twice.", "Give each input once.")
        if spec.name:
            kwargs[spec.name] = tensor
        else:
            inputs.append(tensor)
        if spec.high is None and spec.dtype.startswith("int"):
            guesses.append(
                f"Values of {spec} are 0 or 1, since no bound was given; write `{spec}<10` for "
                f"values from 0 to 9."
            )
    return tuple(inputs), kwargs


def _signature(module: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(module.forward)
    except (TypeError, ValueError):
        return None


def _required(module: Any) -> list[str]:
    signature = _signature(module)
    return [
        parameter.name
        for parameter in (signature.parameters.values() if signature else ())
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def _shown_forward(module: Any) -> str:
    return f"{type(module).__name__}.forward{_signature(module) or '(...)'}"


def _example_options(module: Any) -> str:
    return " ".join("--input 'float32[2,3]'" for _ in _required(module)) or "--input 'float32[2,3]'"


def _as_arguments(module: Any, given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as forward is called: a dict goes by name unless forward takes one dict."""
    if isinstance(given, Mapping):
        signature = _signature(module)
        try:
            if signature is not None:
                signature.bind(**given)
        except TypeError:
            if len(_required(module)) == 1:
                return (given,), {}
        return (), {str(name): value for name, value in given.items()}
    if isinstance(given, list | tuple):
        return tuple(given), {}
    return (given,), {}


def _check_binding(module: Any, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    signature = _signature(module)
    if signature is None:
        return
    try:
        signature.bind(*inputs, **kwargs)
    except TypeError as error:
        count = len(inputs) + len(kwargs)
        given = f"{count} example input{'' if count == 1 else 's'}"
        raise ModelError(
            f"{_shown_forward(module)} cannot be called with {given}: {error}.",
            "Give exactly the arguments of forward, in its order, or by name with "
            "--input 'name=float32[2,3]'.",
            "GC002",
        ) from error


# State of the model


def _initialise_lazy(
    loaded: Loaded, inputs: tuple[Any, ...], kwargs: Mapping[str, Any], guesses: list[str]
) -> None:
    """Lazy modules get their parameters from one forward pass on the module itself."""
    from torch.nn.parameter import is_lazy

    if not any(is_lazy(parameter) for parameter in loaded.module.parameters()):
        return
    import torch

    from graphcheck.workload.user_code import running_user_code

    with (
        running_user_code(
            "forward failed while lazy modules were initialised",
            code="GC002",
            folder=loaded.folder,
        ),
        torch.no_grad(),
    ):
        loaded.module(*inputs, **kwargs)
    guesses.append("Lazy modules were initialised by one forward pass on the example inputs.")


def _check_devices(module: Any) -> None:
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if tensor.device.type != "cpu":
            raise ModelError(
                f"{name} is on the device {tensor.device}; ExecuTorch models are exported from "
                f"the CPU.",
                "Build the model on the CPU, or move it with .to('cpu').",
            )


# Loss


def _add_loss(
    loaded: Loaded,
    request: WorkloadRequest,
    inputs: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    guesses: list[str],
) -> tuple[Any, tuple[Any, ...]]:
    """The module with a loss, and the targets that follow its inputs."""
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
            hint=f"Give inputs that {_shown_forward(loaded.module)} accepts.",
            folder=loaded.folder,
        )
    if loss is None and loaded.trained_with:
        loss = LOSSES[loaded.trained_with]
        guesses.append(f"No loss was given; {loss.name} was used.")
    if loss is None:
        tensors = tensors_of(output)
        if any(_is_loss(tensor) for tensor in tensors):
            if len(tensors) > 1 and _is_loss(tensors[0]):
                guesses.append(
                    "forward returns more than the loss; gradients of the other outputs were cut "
                    "off (detached), since ExecuTorch trains on output 0 alone."
                )
                return detach_others(loaded.module, inputs, list(kwargs)), ()
            return loaded.module, ()
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
        shape, dtype = _prediction(loaded, output, inputs)
        targets = (made_up_target(loss, shape, dtype, request.seed + _TARGET_SEED),)
        guesses.append(_describe_target(loss, targets[0]))
    compute = composed_loss(loss, sequence=loaded.sequence)
    module = with_loss(loaded.module, inputs, list(kwargs), compute, len(targets))
    return module, targets


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
) -> tuple[Any, tuple[Any, ...]]:
    targets = _as_targets(loaded.targets)
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
    return module, targets


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


# Dynamic batch


def _dynamic_shapes(module: Any, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Dim 0 of every tensor whose size there is the batch size becomes one symbol."""
    import torch
    from torch.utils import _pytree

    leaves = [leaf for leaf in tensors_of((inputs, kwargs)) if leaf.dim() > 0]
    if not leaves or leaves[0].shape[0] < 2:
        raise UsageError(
            "--dynamic-batch needs example inputs with a batch of at least 2 in dim 0.",
            "Give a larger batch, for instance --input 'float32[4,3,32,32]'.",
        )
    batch = leaves[0].shape[0]
    dim = torch.export.Dim("batch", min=2)

    def shape_of(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == batch:
            return {0: dim}
        return None

    signature = inspect.signature(module.forward)
    bound = signature.bind(*inputs, **kwargs).arguments
    shapes = _pytree.tree_map(shape_of, dict(bound))
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and parameter.name in shapes:
            shapes.update(shapes.pop(parameter.name))
    return shapes
