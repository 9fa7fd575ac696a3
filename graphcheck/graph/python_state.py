"""Python values that forward changes, which the joint graph keeps as they were.

`torch.export` (2.14) records tensors alone: a counter that forward raises, a hidden state that it
keeps in an ordinary attribute, a global or a list is a constant of the graph from then on, and
nothing is said (measured for attributes, entries of a list and tensors, strict or not, and for
globals). Whether it matters for a given model is measured here, in eager mode: the gradients of a
step with what the step before it has left, against those with what the model began with.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphcheck.graph.gradient_hooks import copied_with_hooks
from graphcheck.graph.module_state import plain_attributes
from graphcheck.graph.outside_writes import MISSING, changed_targets
from graphcheck.graph.own_sources import LIBRARIES
from graphcheck.graph.snapshots import FAR, extrapolated, merged, same, snapshot
from graphcheck.graph.surroundings import Surroundings
from graphcheck.graph.wrong_gradients import (
    WrongGradients,
    gradients_of,
    wrong_loss_or_gradients,
)
from graphcheck.workload.types import Workload

__all__ = ["FrozenState", "frozen_state"]

_LATER = (1, 3, 9, 99, FAR)
"""Steps after which counted numbers are tried: what happens every 2nd, 4th, 5th, 10th or 100th time
happens at one of them."""


@dataclass(frozen=True)
class FrozenState:
    """What forward changes (`block.count`, a global `STEP`, `Net.count`), and the gradients that
    depend on it.

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
    classes writes to an attribute, or a function of their files to something global; then up to
    six forward and backward passes on copies, after which globals are put back. Values in objects
    of other classes are seen only where a global stands for the object.
    """
    try:
        places: dict[str, tuple[str, int]] = {}
        for name, place in _places(workload.module):
            places.setdefault(name, place)
        around = Surroundings(workload.module)
        return _measured(workload, around, places) if places or around.variables else None
    except Exception:
        return None


def _measured(
    workload: Workload, around: Surroundings, places: Mapping[str, tuple[str, int]]
) -> FrozenState | None:
    first = copied_with_hooks(workload.module)
    before = _state(first, around)
    with around.kept():
        constant = gradients_of(workload, first)
        after = _state(first, around)
    changed = {
        where: value
        for where, value in after.items()
        if where not in before or not same(before[where], value)
    }
    if not changed:
        return None
    started = {where: before.get(where, _inherited(first, around, where)) for where in changed}
    for later in _LATER:
        values = {w: extrapolated(started[w], value, later) for w, value in changed.items()}
        if later > 1 and all(same(values[where], changed[where]) for where in values):
            break
        second = copied_with_hooks(workload.module)
        with around.kept():
            _set(second, around, values)
            found = gradients_of(workload, second)
        wrong = wrong_loss_or_gradients(found, constant, workload.prefix)
        if wrong:
            names, place = _told(workload, around, changed, places)
            return FrozenState(names, wrong, later, *place)
    return None


_Where = tuple[str, str] | int
"""Module path and name of an attribute, or the number of a variable outside the model."""


def _state(module: Any, around: Surroundings) -> dict[_Where, Any]:
    """Snapshots of the plain attributes, and of the variables outside."""
    found: dict[_Where, Any] = {
        (path, name): snapshot(value)
        for path, inner in module.named_modules()
        for name, value in plain_attributes(inner).items()
    }
    for number, variable in enumerate(around.variables):
        if variable.value() is not MISSING:
            found[number] = snapshot(variable.value())
    return found


def _inherited(module: Any, around: Surroundings, where: _Where) -> Any:
    """What is read where nothing was written yet: the attribute of a class, or of its base."""
    if isinstance(where, int):
        variable = around.variables[where]
        return getattr(variable.owner, variable.key, None)
    return getattr(type(module.get_submodule(where[0])), where[1], None)


def _set(module: Any, around: Surroundings, values: Mapping[_Where, Any]) -> None:
    for where, value in values.items():
        if isinstance(where, int):
            variable = around.variables[where]
            variable.set(merged(variable.value(), value))
        else:
            path, name = where
            # Past the module's own __setattr__, which would register a tensor's module.
            vars(module.get_submodule(path))[name] = snapshot(value)


def _told(
    workload: Workload,
    around: Surroundings,
    changed: Iterable[_Where],
    places: Mapping[str, tuple[str, int]],
) -> tuple[tuple[str, ...], tuple[str, int]]:
    """The names of what is changed, and the first place that is known."""
    names: list[str] = []
    lines: list[tuple[str, int]] = []
    for where in changed:
        if isinstance(where, int):
            variable = around.variables[where]
            names.append(variable.name)
            lines.append((variable.file, variable.line))
        else:
            names.append(".".join(where).lstrip(".").removeprefix(workload.prefix))
            lines += [places[where[1]]] if where[1] in places else []
    return tuple(dict.fromkeys(names)), next(iter(lines), ("", 0))


def _places(module: Any) -> Iterator[tuple[str, tuple[str, int]]]:
    """Attributes that methods other than `__init__` may change, with file and line."""
    kinds = {kind for inner in module.modules() for kind in type(inner).__mro__}
    files: dict[str, dict[str, ast.ClassDef]] = {}
    for kind in sorted(kinds, key=lambda kind: (kind.__module__, kind.__qualname__)):
        if f"{kind.__module__}.".startswith(LIBRARIES) or kind.__module__ == "builtins":
            continue
        if kind.__module__ not in files:
            files[kind.__module__] = dict(_classes_of(kind.__module__))
        try:
            file = inspect.getsourcefile(kind) or ""
            tree: ast.AST | None = files[kind.__module__].get(kind.__qualname__)
            start = 1
            if tree is None:
                # A notebook's module has no source, its classes have; each call reads all of it.
                lines, start = inspect.getsourcelines(kind)
                tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError):
            continue
        for method in ast.walk(tree):
            if isinstance(method, ast.FunctionDef) and method.name != "__init__":
                for name, line in _written(method):
                    yield name, (file, start + line - 1)


def _classes_of(name: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes that the source of a module defines, by qualified name."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        path, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            inner = path
            if isinstance(child, ast.ClassDef):
                yield path + child.name, child
                inner = f"{path}{child.name}."
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                inner = f"{path}{child.name}.<locals>."
            waiting.append((inner, child))


def _written(method: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    own = method.args.args[0].arg if method.args.args else ""
    for node in ast.walk(method):
        for target in changed_targets(node):
            for part in ast.walk(target):
                if (
                    isinstance(part, ast.Attribute)
                    and isinstance(part.value, ast.Name)
                    and part.value.id == own
                ):
                    yield part.attr, part.lineno
