"""The form every rewrite has, and the registry that finds them.

A rewrite is one file of `graphcheck.rewrite.ops` that defines `REWRITES`, a tuple of `Rewrite`
(usually one; variants of one op by dimension may share a file).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

__all__ = ["Rewrite", "all_rewrites", "rewrites_for"]


@dataclass(frozen=True)
class Rewrite:
    """An exact replacement of one op overload by ops that the runtime has.

    `op` is the qualified overload (`aten.avg_pool2d_backward.default`). `decompose` takes the op's
    own arguments (fake tensors while tracing) and returns what the op returns, built from ATen
    calls, or NotImplemented where this rewrite does not cover the arguments; results have the
    strides of the op they replace (row-major). `stage` is "joint" for a rewrite of the joint
    graph, "forward" for one that must be made before it is differentiated. `formula` states the
    mathematics, `source` where it comes from. `exact` is false only if rounding differs by more
    than the order of a sum. `memory` says in words how memory grows, empty if it does not.
    `kernels` are registry names of a kernel library that the result needs: with any, the rewrite
    is used only where such a library is at hand and preferred, and then before others. `widens`:
    it keeps digits of float64 that the runtime drops, wherever a program's loss is float64.
    `only_asked`: of an op that is right as it is, so it mends no finding (`--rewrite NAME`).
    """

    name: str
    op: str
    formula: str
    source: str
    decompose: Callable[..., Any]
    stage: str = "joint"
    exact: bool = True
    memory: str = ""
    remark: str = ""
    kernels: tuple[str, ...] = ()
    widens: bool = False
    only_asked: bool = False


@lru_cache(maxsize=1)
def all_rewrites() -> tuple[Rewrite, ...]:
    """Every rewrite, by op, those that need kernels first, then by name.

    Raises ValueError on a doubled name.
    """
    from graphcheck.rewrite import ops as package

    found: dict[str, Rewrite] = {}
    for module in pkgutil.iter_modules(package.__path__):
        for rewrite in importlib.import_module(f"{package.__name__}.{module.name}").REWRITES:
            if rewrite.name in found:
                raise ValueError(f"two rewrites have the name {rewrite.name}")
            found[rewrite.name] = rewrite
    return tuple(sorted(found.values(), key=_order))


def _order(rewrite: Rewrite) -> tuple[str, bool, str]:
    return rewrite.op, not rewrite.kernels, rewrite.name


def rewrites_for(
    op: str, kernels: frozenset[str] = frozenset(), *, asked: bool = False
) -> tuple[Rewrite, ...]:
    """Rewrites of a qualified overload that need no kernels but these; the preferred one first.

    With `asked` those, too, that are only made when asked for.
    """
    return tuple(
        rewrite
        for rewrite in all_rewrites()
        if rewrite.op == op
        and kernels.issuperset(rewrite.kernels)
        and (asked or not rewrite.only_asked)
    )
