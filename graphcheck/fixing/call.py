"""Writing a call of `make_trainable` into the user's file, where the modules are a library's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from graphcheck.fixing.edit import defined_names, with_imports
from graphcheck.swap.interface import Unfit, swap_named
from graphcheck.swap.source import Editor

__all__ = ["add_call"]

_FUNCTION = "make_trainable"
_NOWHERE = "no get_model(), `model` or attribute that holds the module was found"


def add_call(
    data: bytes, calls: Sequence[tuple[str, Sequence[int]]], factory: str = ""
) -> tuple[bytes, dict[int, str]]:
    """The file with the model wrapped: where `factory` or get_model() returns it, where `model`
    is assigned, or else where a class assigns what holds a module.

    Each of `calls` is a swap with its anchors: a class assigns its module on the first of these
    lines that is such a line. The calls for which there is no place come by index, with the reason.
    Raises Unfit when no call can be written.
    """
    try:
        wrapper = MetadataWrapper(cst.parse_module(data))
    except (cst.ParserSyntaxError, UnicodeDecodeError, ValueError) as error:
        raise Unfit(f"the file cannot be parsed: {str(error).splitlines()[0]}") from None
    editor = Editor(defined=defined_names(wrapper.module))
    swaps = list(dict.fromkeys(swap for swap, _ in calls))
    names = [factory] if factory else ["get_model"]
    for name in names:
        if any(
            isinstance(n, cst.FunctionDef) and n.name.value == name for n in wrapper.module.body
        ):
            return _write(wrapper, _Returns(name, swaps, editor), editor), {}
    variable = factory or "model"
    if editor.defined.get(variable) == "":
        change = _Assigned(variable, swaps, editor)
        tree = wrapper.module.visit(change)
        if change.found:
            return with_imports(tree, editor).bytes, {}
    finder = _Attributes()
    wrapper.visit(finder)
    by_line: dict[int, list[str]] = {}
    failures: dict[int, str] = {}
    for index, (swap, anchors) in enumerate(calls):
        line = next((n for n in anchors if n in finder.lines), 0)
        if not line:
            failures[index] = _nowhere(swap)
        elif swap not in by_line.setdefault(line, []):
            by_line[line].append(swap)
    if not by_line:
        return data, failures
    return _write(wrapper, _InClass(by_line, editor), editor), failures


def _nowhere(swap: str) -> str:
    """Why a call of this swap has no place; of one that changes several modules, what to do."""
    if swap_named(swap.partition("=")[0]).whole is None:
        return _NOWHERE
    return (
        f"{swap} changes several modules at once, and no get_model(), `model` or attribute that "
        f'holds them all was found: call graphcheck.make_trainable(model, swaps=["{swap}"]) '
        "where your code makes the model"
    )


class _Wrapping(cst.CSTTransformer):
    def __init__(self, swaps: Sequence[str], editor: Editor) -> None:
        self.swaps = list(swaps)
        self.editor = editor
        self.found = False

    def wrap(self, value: cst.BaseExpression) -> cst.BaseExpression:
        """`make_trainable(value, swaps=[...]).module`; an earlier call gets the new names."""
        self.found = True
        earlier = _earlier(value)
        if earlier is not None:
            return _merged(value, earlier, self.swaps)
        spaceless = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        call = cst.Call(
            self.editor.name("graphcheck", _FUNCTION),
            [
                cst.Arg(_bare(value)),
                cst.Arg(_list(self.swaps), keyword=cst.Name("swaps"), equal=spaceless),
            ],
        )
        return cst.Attribute(call, cst.Name("module"))


class _Returns(_Wrapping):
    """Wraps what one function of the file returns."""

    def __init__(self, name: str, swaps: Sequence[str], editor: Editor) -> None:
        super().__init__(swaps, editor)
        self.name = name
        self.depth: list[str] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.depth.append(node.name.value)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self.depth.pop()
        return updated_node

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return False

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        if self.depth != [self.name] or updated_node.value is None:
            return updated_node
        return updated_node.with_changes(value=self.wrap(updated_node.value))


class _Assigned(_Wrapping):
    """Wraps the last value that a top-level name is given."""

    def __init__(self, name: str, swaps: Sequence[str], editor: Editor) -> None:
        super().__init__(swaps, editor)
        self.name = name

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return False

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        target = updated_node.targets[0].target
        named = isinstance(target, cst.Name) and target.value == self.name
        if len(updated_node.targets) != 1 or not named:
            return updated_node
        return updated_node.with_changes(value=self.wrap(updated_node.value))


class _Attributes(cst.CSTVisitor):
    """Lines on which the value of `self.name = value` begins."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        self.lines: set[int] = set()

    def visit_Assign(self, node: cst.Assign) -> None:
        if isinstance(node.targets[0].target, cst.Attribute):
            position = self.get_metadata(PositionProvider, node.value)
            self.lines.add(position.start.line)


class _InClass(_Wrapping):
    """Wraps `self.name = value` on given lines."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, swaps_by_line: Mapping[int, Sequence[str]], editor: Editor) -> None:
        super().__init__((), editor)
        self.swaps_by_line = swaps_by_line

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        position = self.get_metadata(PositionProvider, original_node.value)
        if position.start.line not in self.swaps_by_line:
            return updated_node
        self.swaps = list(self.swaps_by_line[position.start.line])
        return updated_node.with_changes(value=self.wrap(updated_node.value))


def _write(wrapper: MetadataWrapper, change: _Wrapping, editor: Editor) -> bytes:
    tree = wrapper.visit(change)
    if not change.found:
        raise Unfit(_NOWHERE)
    return with_imports(tree, editor).bytes


def _bare(value: cst.BaseExpression) -> cst.BaseExpression:
    """Without brackets of its own: those of the call do."""
    single = len(value.lpar) == 1 and not isinstance(value, (cst.Tuple, cst.GeneratorExp))
    return value.with_changes(lpar=[], rpar=[]) if single else value


def _list(names: Sequence[str]) -> cst.List:
    return cst.List([cst.Element(cst.SimpleString(f'"{name}"')) for name in names])


def _earlier(value: cst.BaseExpression) -> cst.Call | None:
    """The call in `make_trainable(...).module`."""
    if not isinstance(value, cst.Attribute) or value.attr.value != "module":
        return None
    call = value.value
    if not isinstance(call, cst.Call):
        return None
    func = call.func
    name = func.attr.value if isinstance(func, cst.Attribute) else getattr(func, "value", "")
    return call if name == _FUNCTION else None


def _merged(value: cst.BaseExpression, call: cst.Call, swaps: Sequence[str]) -> cst.BaseExpression:
    """The call with more names in its list. Raises Unfit when it has no list, or all of them."""
    for argument in call.args:
        if argument.keyword and argument.keyword.value == "swaps":
            if not isinstance(argument.value, cst.List):
                break
            elements = [element.value for element in argument.value.elements]
            known = [
                str(e.evaluated_value).partition("=")[0]
                for e in elements
                if isinstance(e, cst.SimpleString)
            ]
            more = [name for name in swaps if name.partition("=")[0] not in known]
            if not more:
                raise Unfit("make_trainable is called with these swaps already")
            names = [*(cst.Element(e) for e in elements), *_list(more).elements]
            changed = argument.with_changes(value=cst.List(names))
            return value.with_deep_changes(argument, value=changed.value)
    raise Unfit("make_trainable is called already, with swaps that are not a list")
