"""Facts on tensors, parameters and buffers."""

from __future__ import annotations

from typing import Any

from graphcheck.graph.cuts import cuts
from graphcheck.graph.layout import dim_order_of
from graphcheck.graph.provenance import clean_module_path
from graphcheck.graph.trace import Traced
from graphcheck.graph.types import BufferFact, ParameterFact, TensorFact
from graphcheck.workload.types import Workload

__all__ = [
    "buffer_facts",
    "evaluating_modules",
    "parameter_facts",
    "tensor_fact",
    "tied_parameters",
]


def _size(value: Any) -> int | str:
    return value if isinstance(value, int) else str(value)


def tensor_fact(value: Any, node: str, strides: Any = None) -> TensorFact:
    """Facts of a (fake) tensor; `strides` are those of the lowered program, row-major if None."""
    shape = tuple(_size(size) for size in value.shape)
    if strides is None:
        row: list[int | str] = []
        step: Any = 1
        for size in reversed(value.shape):
            row.append(_size(step))
            step = step * (size if not isinstance(size, int) or size > 1 else 1)
        stride = tuple(reversed(row))
        order = tuple(range(len(shape)))
    else:
        stride = tuple(_size(step) for step in strides)
        order = dim_order_of(strides)
    return TensorFact(str(value.dtype).removeprefix("torch."), shape, stride, order, node)


def tied_parameters(module: Any) -> dict[str, tuple[str, ...]]:
    """Parameters with more than one name: the first name, and the others."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {first: tuple(rest) for first, *rest in names.values() if rest}


def parameter_facts(traced: Traced, workload: Workload) -> tuple[ParameterFact, ...]:
    """Every parameter of the module, with whether it is trainable and gets a gradient."""
    prefix = workload.prefix
    tied = tied_parameters(workload.module)
    used = set(traced.exported.graph_signature.parameters)
    missing = set(traced.no_gradient)
    cut_off = cuts(traced, workload)
    facts = []
    for name, parameter in workload.module.named_parameters():
        aliases = tied.get(name, ())
        names = {name, *aliases}
        cut_by, cut = cut_off.get(name, ("", None))
        facts.append(
            ParameterFact(
                name=clean_module_path(name, prefix),
                dtype=str(parameter.dtype).removeprefix("torch."),
                shape=tuple(parameter.shape),
                trainable=parameter.requires_grad,
                # One name of a tied parameter is enough to have its gradient.
                has_gradient=bool(parameter.requires_grad and (names & used) - missing),
                aliases=tuple(clean_module_path(alias, prefix) for alias in aliases),
                module=clean_module_path(name.rpartition(".")[0], prefix) or "forward",
                cut_by=cut_by,
                cut=cut,
            )
        )
    return tuple(facts)


def buffer_facts(traced: Traced, workload: Workload) -> tuple[BufferFact, ...]:
    """The buffers of the joint graph; a mutated one is written by the program."""
    import torch

    prefix = workload.prefix
    signature = traced.joint.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    persistent = set(workload.module.state_dict())
    modules = dict(workload.module.named_modules())
    facts = []
    for name, buffer in workload.module.named_buffers():
        if name not in signature.buffers:
            continue
        owner = name.rpartition(".")[0]
        facts.append(
            BufferFact(
                name=clean_module_path(name, prefix),
                dtype=str(buffer.dtype).removeprefix("torch."),
                shape=tuple(buffer.shape),
                mutated=name in mutated,
                persistent=name in persistent,
                initial_nonzero=bool(torch.count_nonzero(buffer).item()),
                module=clean_module_path(owner, prefix) or "forward",
                module_type=type(modules[owner]).__name__ if owner in modules else "",
            )
        )
    return tuple(facts)


def evaluating_modules(workload: Workload) -> tuple[tuple[str, str], ...]:
    """Dropout and batch normalisation modules in eval mode: path and type."""
    import torch

    modal = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd)
    return tuple(
        (clean_module_path(path, workload.prefix) or "forward", type(module).__name__)
        for path, module in workload.module.named_modules()
        if isinstance(module, modal) and not module.training
    )
