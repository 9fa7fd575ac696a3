"""`model.pt2`: a program that `torch.export.save` wrote, with or without its backward pass."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from graphcheck.errors import ModelError
from graphcheck.workload.archive import clean_archive
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.targets.interface import Loaded, TargetKind

__all__ = ["KIND"]

_NO_MODULES = (
    "Modules, since torch.export saves a joint program without modules and lines of the source: "
    "each is that of the weight an op reads, or of the one before it. The forward program has them."
)
_SOURCE = "Give the model's own source instead: model.py"


def _matches(target: str) -> bool:
    return target.lower().endswith(".pt2")


def _load(request: WorkloadRequest) -> Loaded:
    path = request.target
    with tempfile.TemporaryDirectory(prefix="graphcheck-") as folder:
        clean = clean_archive(path, Path(folder))
        program = _loaded(path, clean)
    if program.example_inputs is None:
        inputs: tuple[Any, Any] = ((), {})
    else:
        inputs = program.example_inputs
    guesses: tuple[str, ...] = ()
    if program.range_constraints:
        guesses = ("Sizes that are dynamic in the program are checked as it says.",)
    if _is_joint(program):
        if not any(node.meta.get("nn_module_stack") for node in program.graph.nodes):
            guesses += (_NO_MODULES,)
        return Loaded(_tree(program), inputs, exported=program, joint=True, guesses=guesses)
    with _no_objects():
        try:
            module = program.module(check_guards=False)
        except Exception as error:
            raise _damaged(path, error) from error
    _trainable_(module, program)
    arguments, named = inputs
    if named and arguments:
        raise ModelError(
            f"{path} takes both positional and named inputs, which cannot be told apart here.",
            _SOURCE,
        )
    return Loaded(module, dict(named) if named else tuple(arguments), exported=program)


def _loaded(path: str, clean: Path) -> Any:
    import torch

    try:
        with _no_objects():
            return torch.export.load(str(clean))
    except (ModelError, MemoryError):
        raise
    except Exception as error:
        raise _damaged(path, error) from error


def _damaged(path: str, error: Exception) -> ModelError:
    lines = str(error).strip().splitlines()
    why = f"{type(error).__name__}{': ' + lines[0][:160] if lines else ''}"
    if isinstance(error, pickle.UnpicklingError) or "weights_only" in str(error).lower():
        return ModelError(
            f"{path} holds pickled objects that are no plain tensors, which would run code.",
            _SOURCE,
        )
    return ModelError(f"{path} cannot be loaded by this torch: {why}", _SOURCE)


@contextlib.contextmanager
def _no_objects() -> Iterator[None]:
    """Whatever torch unpickles meanwhile has to be plain tensors and containers."""
    import torch

    load = torch.load

    def tensors_only(*arguments: Any, **options: Any) -> Any:
        return load(*arguments, **{**options, "weights_only": True})

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise pickle.UnpicklingError("an object that is no tensor")

    with (
        mock.patch.object(torch, "load", tensors_only),
        mock.patch.object(pickle, "loads", refuse),
        mock.patch.object(torch._C, "_pickle_load_obj", refuse, create=True),
    ):
        yield


def _is_joint(program: Any) -> bool:
    from torch.export.graph_signature import OutputKind

    kinds = {spec.kind for spec in program.graph_signature.output_specs}
    return OutputKind.LOSS_OUTPUT in kinds


def _trainable_(module: Any, program: Any) -> None:
    """Parameters train as they did when the program was exported."""
    for name, parameter in module.named_parameters():
        stated = program.state_dict.get(name)
        if stated is not None:
            parameter.requires_grad_(bool(stated.requires_grad))


def _tree(program: Any) -> Any:
    """A module that holds the parameters and buffers of a joint program under their names."""
    from torch import nn

    signature = program.graph_signature
    root = nn.Module()
    held = [(name, program.state_dict.get(name)) for name in signature.parameters]
    held += [
        (name, program.state_dict.get(name, program.constants.get(name)))
        for name in signature.buffers
    ]
    for name, value in held:
        *path, last = name.split(".")
        owner = root
        for part in path:
            if part not in dict(owner.named_children()):
                owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        if name in signature.parameters:
            owner.register_parameter(last, value)
        elif value is not None:
            owner.register_buffer(last, value)
    return root


KIND = TargetKind(name="exported", form="`model.pt2`", matches=_matches, load=_load)
