"""One eager forward pass on a copy, watched: used only after export or capture has failed.

It tells what the failure's own words do not: which parameter is written and where, what the
outputs are, and where the way from the parameters to the loss is cut.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphcheck.errors import ModelError
from graphcheck.workload.running_forward import running_forward
from graphcheck.workload.types import Workload
from graphcheck.workload.user_code import Frame, calling_frame

__all__ = ["Cut", "Examination", "OutputFact", "Write", "examine"]


@dataclass(frozen=True)
class OutputFact:
    """One flattened output of forward; `kind` is the type's name when it is no tensor.

    `path` is how the user writes it (`[1]`, `['loss']`), "" when forward returns it alone.
    """

    path: str
    kind: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    requires_grad: bool = False
    floating: bool = False
    frame: Frame | None = None

    @property
    def could_be_loss(self) -> bool:
        return not self.kind and not self.shape and self.floating

    def __str__(self) -> str:
        if self.kind:
            return f"a {self.kind}" if self.kind != "NoneType" else "None"
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Write:
    """A parameter that forward writes (`op` in place) or replaces (`op` is "")."""

    parameter: str
    op: str
    frame: Frame | None


@dataclass(frozen=True)
class Cut:
    """An operation whose input requires a gradient and whose result does not."""

    operation: str
    no_grad: bool
    frame: Frame | None


@dataclass(frozen=True)
class Examination:
    """What the watched pass showed; with an `error` the rest is what happened before it.

    `without_gradient` are trainable parameters the loss does not depend on.
    """

    error: ModelError | None = None
    outputs: tuple[OutputFact, ...] = ()
    writes: tuple[Write, ...] = ()
    cuts: tuple[Cut, ...] = ()
    without_gradient: tuple[str, ...] = ()


class _Notes:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.storages: dict[int, str] = {}
        self.writes: list[Write] = []
        self.cuts: list[Cut] = []


def _watch_writes(notes: _Notes) -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class WriteWatch(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            schema = func._schema
            if schema.is_mutable:
                for index, argument in enumerate(schema.arguments):
                    if argument.alias_info is None or not argument.alias_info.is_write:
                        continue
                    value = args[index] if index < len(args) else kwargs.get(argument.name)
                    if not isinstance(value, torch.Tensor):
                        continue
                    name = notes.storages.get(value.untyped_storage().data_ptr())
                    if name is not None:
                        frame = calling_frame(notes.folder)
                        op = schema.name.partition("::")[2]
                        notes.writes.append(Write(name, op, frame))
            return func(*args, **kwargs)

    return WriteWatch()


def _watch_cuts(notes: _Notes) -> Any:
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils import _pytree

    def tensors(value: Any) -> list[Any]:
        return [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]

    class CutWatch(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            result = func(*args, **kwargs)
            made = tensors(result)
            if not made:
                return result
            frame = calling_frame(notes.folder)
            for tensor in made:
                # `data` of a tensor and results of C functions take attributes, too.
                with contextlib.suppress(Exception):
                    tensor._graphcheck_frame = frame
            took = any(tensor.requires_grad for tensor in tensors((args, kwargs)))
            if took and not any(tensor.requires_grad for tensor in made):
                name = getattr(func, "__name__", "")
                if name == "__get__":
                    name = getattr(getattr(func, "__self__", None), "__name__", "")
                notes.cuts.append(Cut(name, not torch.is_grad_enabled(), frame))
            return result

    return CutWatch()


@contextlib.contextmanager
def _own_copy(module: Any) -> Iterator[Any]:
    """A deep copy, or the module itself with its tensors put back at the end."""
    import torch

    try:
        duplicate = copy.deepcopy(module)
    except Exception:
        state = {key: value.detach().clone() for key, value in module.state_dict().items()}
        try:
            yield module
        finally:
            with contextlib.suppress(Exception), torch.no_grad():
                module.load_state_dict(state)
        return
    yield duplicate


def examine(workload: Workload, *, gradients: bool = True) -> Examination:
    """Run forward once in eager mode, watched. `gradients` adds one backward pass.

    Never raises but for KeyboardInterrupt; the workload's module is not changed.
    """
    import torch
    from torch.utils import _pytree

    notes = _Notes(folder="")

    def shown(name: str) -> str:
        return name.removeprefix(workload.prefix)

    def clone(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)

    error: ModelError | None = None
    outputs: tuple[OutputFact, ...] = ()
    missing: tuple[str, ...] = ()
    with _own_copy(workload.module) as module, torch.random.fork_rng(devices=[]):
        before = dict(module.named_parameters())
        places = {name: parameter.data_ptr() for name, parameter in before.items()}
        notes.storages = {
            parameter.untyped_storage().data_ptr(): shown(name)
            for name, parameter in before.items()
            if parameter.requires_grad and parameter.numel()
        }
        args, kwargs = _pytree.tree_map(clone, (tuple(workload.inputs), dict(workload.kwargs)))
        try:
            with (
                running_forward(
                    hint="Give inputs that forward accepts; it fails in ordinary PyTorch, too."
                ),
                torch.enable_grad(),
                _watch_writes(notes),
                _watch_cuts(notes),
            ):
                result = module(*args, **kwargs)
        except ModelError as failure:
            error = failure
        else:
            outputs = _facts_of(result)
            if gradients:
                missing = tuple(shown(name) for name in _without_gradient(result, before))
        for name, parameter in module.named_parameters():
            known = {write.parameter for write in notes.writes}
            moved = name in places and parameter.data_ptr() != places[name]
            if shown(name) not in known and (parameter is not before.get(name) or moved):
                notes.writes.append(Write(shown(name), "", None))
    return Examination(error, outputs, tuple(notes.writes), tuple(notes.cuts), missing)


def _facts_of(result: Any) -> tuple[OutputFact, ...]:
    import torch
    from torch.utils import _pytree

    facts = []
    for path, leaf in _pytree.tree_flatten_with_path(result)[0]:
        shown = _pytree.keystr(path)
        if isinstance(leaf, torch.Tensor):
            facts.append(
                OutputFact(
                    path=shown,
                    dtype=str(leaf.dtype).removeprefix("torch."),
                    shape=tuple(leaf.shape),
                    requires_grad=leaf.requires_grad,
                    floating=leaf.is_floating_point(),
                    frame=getattr(leaf, "_graphcheck_frame", None),
                )
            )
        else:
            facts.append(OutputFact(path=shown, kind=type(leaf).__name__))
    return tuple(facts)


def _without_gradient(result: Any, parameters: dict[str, Any]) -> list[str]:
    import torch
    from torch.utils import _pytree

    leaves = _pytree.tree_leaves(result)
    if not leaves or not isinstance(leaves[0], torch.Tensor):
        return []
    loss = leaves[0]
    if loss.dim() or not loss.requires_grad or not loss.is_floating_point():
        return []
    trained = {name: p for name, p in parameters.items() if p.requires_grad}
    try:
        gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    except Exception:
        # The backward pass itself fails: the caller's error tells why.
        return []
    return [name for name, grad in zip(trained, gradients, strict=True) if grad is None]
