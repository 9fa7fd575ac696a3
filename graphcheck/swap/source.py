"""What the source forms share: reading the arguments of a call, and writing names with imports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphcheck.swap.interface import SourceForm, Unfit

if TYPE_CHECKING:
    import libcst as cst

__all__ = ["LAYERS", "Editor", "bind", "integer", "renamed"]

LAYERS = "graphcheck.layers"


@dataclass
class Editor:
    """Collects the imports that edits of one file need.

    `imports` are pairs of module and name, None as name for the module itself. `defined` are the
    names that the file itself binds at its top; `owner` gives the qualified name of an expression.
    """

    defined: dict[str, str] = field(default_factory=dict)
    imports: set[tuple[str, str | None]] = field(default_factory=set)
    dropped: set[tuple[str, str]] = field(default_factory=set)

    def name(self, module: str, name: str) -> cst.Name:
        """An imported name. Raises Unfit when the file calls something else so."""
        import libcst as cst

        known = self.defined.get(name)
        if known is not None and known != f"{module}.{name}":
            raise Unfit(f"the file calls something else {name}")
        self.imports.add((module, name))
        return cst.Name(name)

    def module(self, module: str) -> cst.Name:
        """A top-level module such as `math`, imported. Raises Unfit as `name` does."""
        import libcst as cst

        known = self.defined.get(module)
        if known is not None and known != module:
            raise Unfit(f"the file calls something else {module}")
        self.imports.add((module, None))
        return cst.Name(module)

    def sibling(self, func: cst.BaseExpression, old: str, new: str) -> cst.BaseExpression:
        """`new` of torch.nn, spelt as the user spells `old`: `nn.New`, or an imported `New`."""
        import libcst as cst

        if isinstance(func, cst.Attribute):
            return func.with_changes(attr=cst.Name(new))
        self.dropped.add(("torch.nn", old))
        return self.name("torch.nn", new)


def bind(call: cst.Call, names: Sequence[str]) -> dict[str, cst.BaseExpression]:
    """The arguments of a call by parameter name. Raises Unfit for stars and unknown names."""
    found: dict[str, cst.BaseExpression] = {}
    for index, argument in enumerate(call.args):
        if argument.star:
            raise Unfit("its arguments are not spelt out")
        name = argument.keyword.value if argument.keyword else ""
        if not name:
            if index >= len(names):
                raise Unfit("it has more arguments than expected")
            name = names[index]
        if name not in names:
            raise Unfit(f"the argument {name} is not expected")
        found[name] = argument.value
    return found


def integer(node: cst.BaseExpression) -> int | None:
    """The value of an integer literal, None for anything else."""
    import libcst as cst

    return int(node.value, 0) if isinstance(node, cst.Integer) else None


def renamed(names: dict[str, str]) -> SourceForm:
    """A source form that calls another class or function of ours with the same arguments."""

    def change(call: cst.Call, called: str, editor: Editor, argument: str) -> cst.BaseExpression:
        import libcst as cst

        new = editor.name(LAYERS, names[called])
        if isinstance(call.func, cst.Name):
            home = "torch.nn" if called[0].isupper() else "torch.nn.functional"
            editor.dropped.add((home, called))
        return call.with_changes(func=new)

    return change
