"""What functions of the user's files change outside the model: globals and attributes of classes.

Found in their source: `global STEP; STEP += 1`, `STATE["n"] += 1`, `LOG.append(x)`,
`Net.count += 1`, `type(self).count += 1`, `config.step += 1`. Only an attribute of a class, of a
module or of another object that a global name stands for; not what a local name or a call gives.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from graphcheck.graph.own_sources import LIBRARIES, own_modules

__all__ = ["CHANGING", "MISSING", "Variable", "changed_targets", "outside_writes"]

CHANGING = {
    *("append", "appendleft", "add", "clear", "extend"),
    *("insert", "pop", "popleft", "setdefault", "update"),
}
MISSING = object()
"""The value of a name that is not there."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Variable:
    """A name in a module, a class or an object; `name` is as the user writes it (`Net.count`).

    `file` and `line` are where it is changed first.
    """

    name: str
    owner: Any
    key: str
    file: str
    line: int

    def value(self) -> Any:
        """MISSING where the owner itself has none."""
        return vars(self.owner).get(self.key, MISSING)

    def set(self, value: Any) -> None:
        if value is self.value():
            return
        if isinstance(self.owner, type):
            if value is MISSING:
                type.__delattr__(self.owner, self.key)
            else:
                type.__setattr__(self.owner, self.key, value)
        elif value is MISSING:
            del vars(self.owner)[self.key]
        else:
            vars(self.owner)[self.key] = value


def outside_writes(module: Any) -> list[Variable]:
    """The variables that functions other than `__init__` of the model's own files may change."""
    kinds = {type(inner) for inner in module.modules()}
    found: dict[tuple[int, str], Variable] = {}
    for home in own_modules(module):
        try:
            tree = ast.parse(inspect.getsource(home))
        except (OSError, TypeError, SyntaxError):
            continue
        file = inspect.getsourcefile(home) or ""
        for kind_name, function in _functions(tree):
            owners = [k for k in kinds if any(_is(base, home, kind_name) for base in k.__mro__)]
            owners.sort(key=lambda kind: (kind.__module__, kind.__qualname__))
            for root, keys, line in _chains(function):
                for name, owner, key in _variables(root, keys, home, owners):
                    if owner is not home and _of_a_library(owner):
                        continue
                    found.setdefault((id(owner), key), Variable(name, owner, key, file, line))
    return list(found.values())


def changed_targets(node: ast.AST) -> list[ast.expr]:
    """What a statement or a call assigns to, or changes in place."""
    if isinstance(node, ast.Assign):
        return list(node.targets)
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if name in CHANGING or (name.endswith("_") and not name.endswith("__")):
            return [node.func.value]
    return []


def _is(kind: type, home: ModuleType, name: str) -> bool:
    return bool(name) and kind.__module__ == home.__name__ and kind.__name__ == name


def _functions(node: ast.AST, kind: str = "") -> Iterator[tuple[str, _Function]]:
    """Every function, with the name of the class it is a method of."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, child.name)
        elif isinstance(child, _Function):
            if child.name != "__init__":
                yield kind, child
            yield from _functions(child, kind)
        else:
            yield from _functions(child, kind)


def _chains(function: _Function) -> Iterator[tuple[str, list[str], int]]:
    """Root, attributes and line of what the function changes outside.

    The root is a global name, "self" for the first argument and "class" for its class.
    """
    arguments = [*function.args.posonlyargs, *function.args.args]
    first = arguments[0].arg if arguments else ""
    of_class = any(getattr(d, "id", "") == "classmethod" for d in function.decorator_list)
    declared = {n for x in ast.walk(function) if isinstance(x, ast.Global) for n in x.names}
    local = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            local.add(node.id)
    local -= declared
    for node in ast.walk(function):
        for target in changed_targets(node):
            parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            for part in parts:
                root, keys = _unwound(part)
                line = getattr(node, "lineno", 0)
                if isinstance(root, ast.Call) and _is_type_of(root, first):
                    yield "class", keys, line
                elif isinstance(root, ast.Name) and root.id == first:
                    yield "class" if of_class else "self", keys, line
                elif isinstance(root, ast.Name) and root.id not in local:
                    # A name that is assigned without `global` is local, so this is a change inside.
                    yield root.id, keys, line


def _unwound(target: ast.expr) -> tuple[ast.expr, list[str]]:
    """The root of `a.b["c"].d`, and its attributes up to the first subscript."""
    keys: list[str] = []
    while isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred)):
        if isinstance(target, ast.Subscript):
            keys = []
        elif isinstance(target, ast.Attribute):
            keys.insert(0, target.attr)
        target = target.value
    return target, keys


def _is_type_of(call: ast.Call, name: str) -> bool:
    """`type(self)`."""
    arguments = [getattr(argument, "id", "") for argument in call.args]
    return getattr(call.func, "id", "") == "type" and arguments == [name]


def _variables(
    root: str, keys: list[str], home: ModuleType, kinds: list[type]
) -> Iterator[tuple[str, Any, str]]:
    """The variables that a chain names, as name, owner and key."""
    if root == "self" and keys[:1] == ["__class__"]:
        root, keys = "class", keys[1:]
    if root in ("class", "self"):
        for kind in kinds if keys else ():
            for base in kind.__mro__:
                # An attribute that is set through self is the instance's.
                if base is kind if root == "class" else keys[0] in vars(base):
                    yield from _followed(base.__name__, base, keys)
            if root == "class":
                yield from _inherited(kind, keys)
    elif not keys:
        if not isinstance(vars(home).get(root), ModuleType):
            yield root, home, root
    elif root in vars(home):
        owner = vars(home)[root]
        yield from _followed(root, owner, keys)
        if isinstance(owner, type):
            yield from _inherited(owner, keys)


def _inherited(kind: type, keys: list[str]) -> Iterator[tuple[str, Any, str]]:
    """What a base class holds may be changed in place."""
    for base in kind.__mro__[1:]:
        if keys[0] in vars(base):
            yield from _followed(base.__name__, base, keys)


def _followed(name: str, owner: Any, keys: list[str]) -> Iterator[tuple[str, Any, str]]:
    for key in keys[:-1]:
        # Without running code of the user's.
        name, owner = f"{name}.{key}", inspect.getattr_static(owner, key, None)
    if hasattr(owner, "__dict__"):
        yield ".".join((name, keys[-1])), owner, keys[-1]


def _of_a_library(owner: Any) -> bool:
    if isinstance(owner, ModuleType):
        home = owner.__name__
    else:
        home = (owner if isinstance(owner, type) else type(owner)).__module__
    return f"{home}.".startswith((*LIBRARIES, "builtins.", "numpy."))
