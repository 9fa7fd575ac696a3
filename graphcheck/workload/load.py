"""From what the user named to a `Workload`: model, example inputs and a scalar loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from graphcheck.arguments import checked_module
from graphcheck.errors import ModelError, UsageError
from graphcheck.workload.adding_loss import add_loss
from graphcheck.workload.example_inputs import check_binding, dynamic_shapes, example_inputs
from graphcheck.workload.input_spec import InputSpec, parse_input
from graphcheck.workload.losses import loss_named
from graphcheck.workload.odd_inputs import explained_inputs, taken_whole
from graphcheck.workload.probe import probe
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.running_forward import running_forward
from graphcheck.workload.targets.interface import Loaded, kind_of
from graphcheck.workload.tensor_hooks import tensor_hooks_off
from graphcheck.workload.types import Workload
from graphcheck.workload.with_loss import PREFIX

__all__ = ["from_module", "load"]


def load(request: WorkloadRequest) -> Workload:
    """Load a target.

    Runs the user's code, so call it in a child process. Raises UsageError for a request that
    cannot be meant, ModelError (codes GC001, GC002, GC005, GC009, GC012, GC014) for a model that
    cannot be used; nothing else.
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
    checked_module(module)
    texts: tuple[str, ...] = ()
    if isinstance(inputs, str):
        texts, inputs = (inputs,), None
    elif isinstance(inputs, list | tuple) and inputs and all(isinstance(i, str) for i in inputs):
        texts, inputs = tuple(inputs), None
    name = loss if isinstance(loss, str) else ""
    if name:
        loss_named(name)
    if isinstance(loss, type):
        raise UsageError(
            f"loss is the class {loss.__name__}, which makes a loss and is none.",
            f"Pass an instance: loss={loss.__name__}().",
        )
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
    if loaded.joint:
        return _joint(loaded, request)
    inputs, kwargs = example_inputs(loaded, specs, request.seed, guesses)
    check_binding(module, inputs, kwargs)
    with explained_inputs(module, loaded.inputs, inputs, kwargs):
        _initialise_lazy(loaded, inputs, kwargs, guesses)
        _check_devices(module)
        if loaded.loss is not None and taken_whole(loaded.inputs, inputs):
            probe(module, inputs, kwargs, folder=loaded.folder)
        added = add_loss(loaded, request, inputs, kwargs, guesses)
    wrapped, inputs = added.module, (*inputs, *added.targets)
    shapes = None
    if request.dynamic_batch:
        shapes = dynamic_shapes(wrapped, inputs, kwargs)
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
        exported=_as_it_is(loaded, request) if wrapped is module else None,
        example_loss=added.value,
    )


def _as_it_is(loaded: Loaded, request: WorkloadRequest) -> Any:
    """The exported program of the target, unless it is to be traced with other inputs."""
    return None if request.inputs or request.dynamic_batch else loaded.exported


def _joint(loaded: Loaded, request: WorkloadRequest) -> Workload:
    """A program with its backward pass takes no loss and no other inputs."""
    for option, value in (("--loss", request.loss), ("--input", request.inputs)):
        if value:
            raise UsageError(
                f"{option} cannot be used: {request.target} has its loss and gradients already.",
                "Give the model, or its forward program.",
            )
    inputs, kwargs = loaded.inputs
    return Workload(
        module=loaded.module,
        inputs=tuple(inputs),
        kwargs=dict(kwargs),
        guesses=loaded.guesses,
        root_type=type(loaded.module).__name__,
        target=request.target,
        exported=loaded.exported,
        joint=True,
    )


def _initialise_lazy(
    loaded: Loaded, inputs: tuple[Any, ...], kwargs: Mapping[str, Any], guesses: list[str]
) -> None:
    """Lazy modules get their parameters from one forward pass on the module itself."""
    from torch.nn.parameter import is_lazy

    if not any(is_lazy(parameter) for parameter in loaded.module.parameters()):
        return
    import torch

    with (
        running_forward("forward failed while lazy modules were initialised", folder=loaded.folder),
        torch.no_grad(),
        tensor_hooks_off(),
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
