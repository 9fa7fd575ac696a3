"""Example inputs: as the target gave them, made up from specifications, or missing."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from graphcheck.errors import ModelError, UsageError
from graphcheck.workload.input_spec import InputSpec, make_tensor, parse_input
from graphcheck.workload.targets.interface import Loaded
from graphcheck.workload.user_code import shown_path

__all__ = [
    "check_binding",
    "dynamic_shapes",
    "example_inputs",
    "parameter_names",
    "shown_forward",
]


def example_inputs(
    loaded: Loaded, specs: tuple[InputSpec, ...], seed: int, guesses: list[str]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword inputs; what was assumed is appended to `guesses`.

    Raises ModelError GC002 when the model needs inputs and none are given.
    """
    if specs:
        return _made_up(specs, seed, guesses)
    if loaded.inputs is not None:
        return _as_arguments(loaded.module, loaded.inputs)
    if loaded.default_inputs:
        shown = " and ".join(loaded.default_inputs)
        verb = "was" if len(loaded.default_inputs) == 1 else "were"
        guesses.append(f"No inputs were given; random {shown} {verb} used.")
        return _made_up(tuple(parse_input(text) for text in loaded.default_inputs), seed, guesses)
    if not _required(loaded.module):
        return (), {}
    given = shown_path(loaded.file) if loaded.file else "the model"
    raise ModelError(
        f"There are no example inputs for {shown_forward(loaded.module)} ({given}).",
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


def parameter_names(module: Any) -> list[str]:
    """Names of the arguments that forward takes by position."""
    signature = _signature(module)
    return [
        parameter.name
        for parameter in (signature.parameters.values() if signature else ())
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]


def _required(module: Any) -> list[str]:
    signature = _signature(module)
    return [
        parameter.name
        for parameter in (signature.parameters.values() if signature else ())
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def shown_forward(module: Any) -> str:
    """`Net.forward(x, y)`"""
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


def check_binding(module: Any, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise ModelError GC002 when forward cannot be called with these arguments."""
    signature = _signature(module)
    if signature is None:
        return
    try:
        signature.bind(*inputs, **kwargs)
    except TypeError as error:
        count = len(inputs) + len(kwargs)
        given = f"{count} example input{'' if count == 1 else 's'}"
        raise ModelError(
            f"{shown_forward(module)} cannot be called with {given}: {error}.",
            "Give exactly the arguments of forward, in its order, or by name with "
            "--input 'name=float32[2,3]'.",
            "GC002",
        ) from error


def dynamic_shapes(module: Any, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Dim 0 of every tensor whose size there is the batch size becomes one symbol."""
    import torch
    from torch.utils import _pytree

    from graphcheck.workload.heads import tensors_of

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
