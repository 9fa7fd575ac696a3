"""Python values that forward changes, which the joint graph keeps as they were.

`torch.export` (2.14) records tensors alone: a counter that forward raises, a hidden state that it
keeps in an ordinary attribute or in a list is a constant of the graph from then on, and nothing is
said (measured for attributes, entries of a list and tensors, strict or not). Whether it matters for
a given model is measured here, in eager mode: the gradients of a step with what the step before it
has left, against those with what the model began with.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphcheck.graph.gradient_hooks import copied_with_hooks
from graphcheck.graph.own_sources import LIBRARIES
from graphcheck.graph.wrong_gradients import (
    WrongGradients,
    gradients_of,
    wrong_loss_or_gradients,
)
from graphcheck.workload.types import Workload

__all__ = ["FrozenState", "frozen_state"]

_FAR = 1000
"""Steps after which a number that forward counts is tried, too (a warm-up, a schedule)."""
_CHANGING = {
    *("append", "appendleft", "add", "clear", "extend"),
    *("insert", "pop", "popleft", "setdefault", "update"),
}


@dataclass(frozen=True)
class FrozenState:
    """Attributes that forward changes (`block.count`), and the gradients that depend on them.

    `later` is the step at which the gradients were seen to differ; `file` and `line` are where the
    first of them is changed.
    """

    names: tuple[str, ...]
    wrong: WrongGradients
    later: int
    file: str = ""
    line: int = 0


def frozen_state(workload: Workload) -> FrozenState | None:
    """What goes wrong when the model's Python values stay as they are.

    None when forward changes none, when they change no gradient and not the loss, or when the model
    does not run (which other checks report). Costs nothing unless a method of the model's own
    classes writes to an attribute; then up to three forward and backward passes on copies. Values
    in objects of other classes are not seen.
    """
    places = dict(_places(workload.module))
    if not places:
        return None
    try:
        return _measured(workload, places)
    except Exception:
        return None


def _measured(workload: Workload, places: Mapping[str, tuple[str, int]]) -> FrozenState | None:
    first = copied_with_hooks(workload.module)
    before = _state(first)
    constant = gradients_of(workload, first)
    after = _state(first)
    changed = {
        name: value
        for name, value in after.items()
        if name not in before or not _same(before[name], value)
    }
    if not changed:
        return None
    far = {name: _extrapolated(before.get(name), value) for name, value in changed.items()}
    for later, values in ((1, changed), (_FAR, far)):
        if later == _FAR and all(_same(far[name], changed[name]) for name in far):
            continue
        second = copied_with_hooks(workload.module)
        for (path, name), value in values.items():
            # Past the module's own __setattr__, which would register a tensor's module.
            vars(second.get_submodule(path))[name] = _snapshot(value)
        wrong = wrong_loss_or_gradients(gradients_of(workload, second), constant, workload.prefix)
        if wrong:
            names = tuple(".".join((path, name)).lstrip(".") for path, name in changed)
            names = tuple(name.removeprefix(workload.prefix) for name in names)
            place = next((places[name] for _, name in changed if name in places), ("", 0))
            return FrozenState(names, wrong, later, *place)
    return None


def _state(module: Any) -> dict[tuple[str, str], Any]:
    """Snapshots of the plain attributes, by module path and name."""
    import torch

    own = vars(torch.nn.Module()).keys()
    return {
        (path, name): _snapshot(value)
        for path, inner in module.named_modules()
        for name, value in vars(inner).items()
        if name not in own
    }


def _snapshot(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (list, tuple, set, deque):
        return type(value)(_snapshot(item) for item in value)
    if isinstance(value, dict):
        taken = copy.copy(value)
        taken.update({key: _snapshot(item) for key, item in value.items()})
        return taken
    return value


def _same(first: Any, second: Any) -> bool:
    import torch

    if type(first) is not type(second):
        return False
    if isinstance(first, torch.Tensor):
        return first.shape == second.shape and bool(torch.equal(first, second))
    if isinstance(first, (list, tuple, deque)):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in first)
    if isinstance(first, (int, float, complex, str, bytes, set)):
        return bool(first == second)
    return True


def _extrapolated(before: Any, after: Any) -> Any:
    """What a counted number is after many such steps; others as they are."""
    counted = type(before) is type(after) and type(after) in (int, float)
    return before + _FAR * (after - before) if counted else after


def _places(module: Any) -> Iterator[tuple[str, tuple[str, int]]]:
    """Attributes that methods other than `__init__` may change, with file and line."""
    kinds = {kind for inner in module.modules() for kind in type(inner).__mro__}
    for kind in sorted(kinds, key=lambda kind: (kind.__module__, kind.__qualname__)):
        if f"{kind.__module__}.".startswith(LIBRARIES) or kind.__module__ == "builtins":
            continue
        try:
            lines, start = inspect.getsourcelines(kind)
            file = inspect.getsourcefile(kind) or ""
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError):
            continue
        for method in ast.walk(tree):
            if isinstance(method, ast.FunctionDef) and method.name != "__init__":
                for name, line in _written(method):
                    yield name, (file, start + line - 1)


def _written(method: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    own = method.args.args[0].arg if method.args.args else ""
    for node in ast.walk(method):
        if not isinstance(node, (ast.stmt, ast.expr)):
            continue
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = list(node.targets)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changes = node.func.attr in _CHANGING
            in_place = node.func.attr.endswith("_") and not node.func.attr.endswith("__")
            targets = [node.func.value] if changes or in_place else []
        for target in targets:
            for part in ast.walk(target):
                if (
                    isinstance(part, ast.Attribute)
                    and isinstance(part.value, ast.Name)
                    and part.value.id == own
                ):
                    yield part.attr, node.lineno
