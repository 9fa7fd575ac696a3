"""Where a module of the user's model is constructed: the line `self.pool = nn.MaxPool2d(2)`.

Found in the source of the class that owns the module, without running anything.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

__all__ = ["Constructions"]


class Constructions:
    """Looks up construction lines in the classes of one root module."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._files: dict[str, dict[str, list[ast.ClassDef]]] = {}
        self._classes: dict[type, tuple[str, dict[str, ast.expr]]] = {}

    def locate(self, path: str) -> tuple[str, int]:
        """File and line for a module path; ("", 0) if it is not found."""
        parts = path.split(".")
        # A container of torch has no line of its own for a child: ask who made the container.
        for depth in range(len(parts), 0, -1):
            try:
                owner = self._root.get_submodule(".".join(parts[: depth - 1]))
            except AttributeError:
                return "", 0
            if type(owner).__module__.startswith("torch.nn."):
                continue
            found = self._in_class(type(owner), parts[depth - 1], parts[depth:])
            if found[1]:
                return found
        return "", 0

    def _in_class(self, kind: type, attribute: str, rest: list[str]) -> tuple[str, int]:
        for base in kind.__mro__:
            if base.__module__.startswith("torch.nn.") or base is object:
                continue
            if base not in self._classes:
                self._classes[base] = self._assignments(base)
            file, values = self._classes[base]
            if attribute in values:
                return file, _element(values[attribute], rest).lineno
        return "", 0

    def _assignments(self, kind: type) -> tuple[str, dict[str, ast.expr]]:
        """File of a class and the values of its `self.attribute = value`."""
        file, classes = self._source(kind)
        values: dict[str, ast.expr] = {}
        for class_def in reversed(classes.get(kind.__name__, [])):
            values.update(_assigned(class_def))
        return file, values

    def _source(self, kind: type) -> tuple[str, dict[str, list[ast.ClassDef]]]:
        """File of a class and all the classes defined in it, by name."""
        try:
            file = inspect.getsourcefile(kind) or ""
        except TypeError:
            return "", {}
        if file not in self._files:
            classes: dict[str, list[ast.ClassDef]] = {}
            try:
                with open(file, encoding="utf-8") as stream:
                    tree = ast.parse(stream.read())
            except (OSError, SyntaxError, ValueError):
                tree = ast.Module(body=[], type_ignores=[])
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    classes.setdefault(node.name, []).append(node)
            self._files[file] = classes
        return file, self._files[file]


def _assigned(class_def: ast.ClassDef) -> dict[str, ast.expr]:
    """The value of the last `self.attribute = value` in the class, by attribute."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(class_def):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for target in targets:
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            ):
                found[target.attr] = node.value  # type: ignore[attr-defined]
    return found


def _element(value: ast.expr, rest: list[str]) -> ast.expr:
    """Go down into `nn.Sequential(a, b)` and `nn.ModuleList([a, b])` by index."""
    for part in rest:
        if not part.isdigit() or not isinstance(value, ast.Call):
            break
        items = value.args
        if len(items) == 1 and isinstance(items[0], (ast.List, ast.Tuple)):
            items = items[0].elts
        index = int(part)
        if index >= len(items) or any(isinstance(i, ast.Starred) for i in items[: index + 1]):
            break
        value = items[index]
    return value
