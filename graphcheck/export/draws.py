"""`--deterministic-dropout`: the random draws of a program become its inputs.

The program then takes its masks (as uniform numbers) from outside, eager is given the same ones,
and every gradient can be compared exactly; on a device the same numbers give the same training.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphcheck.errors import ModelError
from graphcheck.export.types import RandomInput
from graphcheck.graph.provenance import Provenance
from graphcheck.graph.trace import Traced
from graphcheck.rewrite.random import Draw, draw_values, draws_as_inputs, replayed
from graphcheck.workload.types import Workload

__all__ = ["with_draws_as_inputs"]


def with_draws_as_inputs(
    workload: Workload, traced: Traced, sets: int
) -> tuple[Workload, Traced, tuple[RandomInput, ...]]:
    """The joint graph with its draws as inputs, and the workload that feeds and replays them.

    The workload trains on `sets` sets of the example inputs, each with draws of its own. Without
    random ops all is returned as it is. Raises ModelError for a random op that cannot be fed.
    """
    provenance = Provenance(traced.exported, workload.prefix, workload.root_type)
    joint, draws = draws_as_inputs(traced.joint, lambda node: provenance.source(node).module)
    if not draws:
        return workload, traced, ()
    sizes = _sizes(joint, workload, draws)
    names = tuple(draw.name for draw in draws)
    batches = tuple(
        _extended(workload, names, draw_values(draws, seed, sizes)) for seed in range(sets)
    )
    inputs, kwargs = batches[0]
    drawn = replace(
        workload,
        module=_replaying(workload.module, names),
        inputs=inputs,
        kwargs=kwargs,
        batches=batches,
    )
    facts = tuple(
        RandomInput(d.name, d.dtype, d.shape, d.distribution, d.module, d.low, d.high)
        for d in draws
    )
    return drawn, replace(traced, joint=joint), facts


def _extended(
    workload: Workload, names: Sequence[str], values: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with the draws at the end: by name where there are names, which come last."""
    if workload.kwargs:
        return workload.inputs, {**workload.kwargs, **dict(zip(names, values, strict=True))}
    return (*workload.inputs, *values), {}


def _replaying(module: Any, names: tuple[str, ...]) -> Any:
    """The module, sharing all it holds, with a forward that takes the draws after its inputs."""

    class Replaying(type(module)):  # type: ignore[misc]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            if kwargs:
                values = [kwargs.pop(name) for name in names]
            else:
                args, values = args[: -len(names)], list(args[-len(names) :])
            with replayed(values):
                return super().forward(*args, **kwargs)

    twin = copy.copy(module)
    twin.__class__ = Replaying
    return twin


def _sizes(joint: Any, workload: Workload, draws: Sequence[Draw]) -> dict[str, int]:
    """What the symbolic sizes of the draws are for the example inputs."""
    symbolic = {size for draw in draws for size in draw.shape if isinstance(size, str)}
    if not symbolic:
        return {}
    import sympy  # type: ignore[import-untyped]
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves((workload.inputs, workload.kwargs))
    known: dict[str, int] = {}
    placeholders = {node.name: node for node in joint.graph.nodes if node.op == "placeholder"}
    for name, leaf in zip(joint.graph_signature.user_inputs, leaves, strict=False):
        value = placeholders[name].meta["val"] if name in placeholders else None
        if isinstance(value, torch.Tensor) and isinstance(leaf, torch.Tensor):
            known.update(
                (str(size), int(actual))
                for size, actual in zip(value.shape, leaf.shape, strict=True)
                if not isinstance(size, int)
            )
    found = {}
    for size in symbolic:
        number = sympy.sympify(size, locals={}).subs(known)
        if not number.is_Integer:
            raise ModelError(
                f"the size {size} of a random input does not follow from the example inputs",
                "leave --deterministic-dropout or --dynamic-batch out",
            )
        found[size] = int(number)
    return found
