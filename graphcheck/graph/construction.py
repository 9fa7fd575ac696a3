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
        self._trees: dict[str, ast.Module | None] = {}

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
            file, tree = self._source(base)
            if tree is None:
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and node.name == base.__name__:
                    value = _assigned(node, attribute)
                    if value is not None:
                        return file, _element(value, rest).lineno
        return "", 0

    def _source(self, kind: type) -> tuple[str, ast.Module | None]:
        try:
            file = inspect.getsourcefile(kind) or ""
        except TypeError:
            return "", None
        if file not in self._trees:
            try:
                with open(file, encoding="utf-8") as stream:
                    self._trees[file] = ast.parse(stream.read())
            except (OSError, SyntaxError, ValueError):
                self._trees[file] = None
        return file, self._trees[file]


def _assigned(class_def: ast.ClassDef, attribute: str) -> ast.expr | None:
    """The value of the last `self.attribute = value` in the class."""
    found: ast.expr | None = None
    for node in ast.walk(class_def):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for target in targets:
            if (
                isinstance(target, ast.Attribute)
                and target.attr == attribute
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            ):
                found = node.value  # type: ignore[attr-defined]
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
