"""Edits of one file with libcst: only what a decision names changes, all else stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst.codemod import CodemodContext
from libcst.codemod.visitors import AddImportsVisitor, RemoveImportsVisitor
from libcst.metadata import MetadataWrapper, PositionProvider, QualifiedNameProvider

from graphcheck.fixing.types import Decision
from graphcheck.swap.interface import Unfit, all_swaps, parse_picks
from graphcheck.swap.source import Editor

__all__ = ["Edited", "defined_names", "edit", "with_imports"]


@dataclass
class Edited:
    """The new bytes of a file, and why decisions could not be carried out."""

    data: bytes
    failures: dict[Decision, str] = field(default_factory=dict)


@dataclass
class _Found:
    """A call of the file: its node, what it calls, first and last line."""

    node: cst.Call
    called: str
    first: int
    last: int


class _Calls(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider, QualifiedNameProvider)

    def __init__(self) -> None:
        self.found: list[_Found] = []

    def visit_Call(self, node: cst.Call) -> None:
        names: Any = self.get_metadata(QualifiedNameProvider, node, set())
        position: Any = self.get_metadata(PositionProvider, node)
        for name in sorted(n.name for n in names):
            if name.startswith(("torch.nn.", "torch.")):
                called = name.rpartition(".")[2]
                self.found.append(_Found(node, called, position.start.line, position.end.line))
                break


class _Change(cst.CSTTransformer):
    def __init__(
        self,
        calls: dict[cst.Call, tuple[str, Decision]],
        statements: Sequence[Decision],
        editor: Editor,
    ) -> None:
        self.calls = calls
        self.statements = statements
        self.editor = editor
        self.failures: dict[Decision, str] = {}
        self.done: set[Decision] = set()

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if original_node not in self.calls:
            return updated_node
        called, decision = self.calls[original_node]
        (pick,) = parse_picks([decision.swap])
        source = all_swaps()[pick.name].source
        assert source is not None
        try:
            changed = source(updated_node, called, self.editor, pick.argument)
        except Unfit as error:
            self.failures[decision] = str(error)
            return updated_node
        self.done.add(decision)
        return changed

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        for decision in self.statements:
            (pick,) = parse_picks([decision.swap])
            statement = all_swaps()[pick.name].statement
            try:
                changed = statement(updated_node, self.editor) if statement else None
            except Unfit as error:
                self.failures[decision] = str(error)
                continue
            if changed is not None:
                self.done.add(decision)
                return changed
        return updated_node


def edit(data: bytes, decisions: Iterable[Decision]) -> Edited:
    """Carry out the decisions on one file; a decision that cannot be is left with its reason."""
    decisions = tuple(decisions)
    try:
        wrapper = MetadataWrapper(cst.parse_module(data))
    except (cst.ParserSyntaxError, UnicodeDecodeError, ValueError) as error:
        why = f"the file cannot be parsed: {str(error).splitlines()[0]}"
        return Edited(data, dict.fromkeys(decisions, why))
    finder = _Calls()
    wrapper.visit(finder)
    failures: dict[Decision, str] = {}
    calls: dict[cst.Call, tuple[str, Decision]] = {}
    for decision in decisions:
        if decision.form == "statement":
            continue
        meant = _meant(finder.found, decision)
        if not meant:
            failures[decision] = (
                f"line {decision.line} calls no {' or '.join(decision.names)} by name"
            )
        for found in meant:
            calls.setdefault(found.node, (found.called, decision))
    editor = Editor(defined=defined_names(wrapper.module))
    statements = [decision for decision in decisions if decision.form == "statement"]
    change = _Change(calls, statements, editor)
    tree = wrapper.module.visit(change)
    failures.update(change.failures)
    for decision in statements:
        if not change.done:
            failures.setdefault(
                decision, "the file has no statement `self.a.weight = self.b.weight`"
            )
    if not change.done:
        return Edited(data, failures)
    return Edited(with_imports(tree, editor).bytes, failures)


def _meant(found: Sequence[_Found], decision: Decision) -> list[_Found]:
    """Calls of the right name on the line, or else the innermost that span it."""
    named = [call for call in found if call.called in decision.names]
    starting = [call for call in named if call.first == decision.line]
    if starting:
        return starting
    around = [call for call in named if call.first <= decision.line <= call.last]
    if around:
        return [min(around, key=lambda call: call.last - call.first)]
    # The line begins a longer expression, in which the call has a line of its own.
    outer = [call for call in found if call.first == decision.line]
    return [c for c in named if any(o.first <= c.first and c.last <= o.last for o in outer)]


def defined_names(module: cst.Module) -> dict[str, str]:
    """Names that a file binds at its top level, with what they stand for ("" for its own)."""
    found: dict[str, str] = {}
    for line in module.body:
        if isinstance(line, (cst.FunctionDef, cst.ClassDef)):
            found[line.name.value] = ""
        elif isinstance(line, cst.SimpleStatementLine):
            for statement in line.body:
                _bindings(module, statement, found)
    return found


def _bindings(module: cst.Module, statement: cst.CSTNode, found: dict[str, str]) -> None:
    if isinstance(statement, (cst.Import, cst.ImportFrom)):
        home = ""
        if isinstance(statement, cst.ImportFrom):
            dots = "." * len(statement.relative)
            home = dots + (module.code_for_node(statement.module) if statement.module else "") + "."
        names = statement.names
        for alias in () if isinstance(names, cst.ImportStar) else names:
            full = module.code_for_node(alias.name)
            bound = module.code_for_node(alias.asname.name) if alias.asname else full.split(".")[0]
            found[bound] = home + (full if alias.asname or home else bound)
    elif isinstance(statement, cst.Assign):
        for target in statement.targets:
            if isinstance(target.target, cst.Name):
                found[target.target.value] = ""


def with_imports(tree: cst.Module, editor: Editor) -> cst.Module:
    """Add the imports that the edits need; remove those that they made superfluous."""
    context = CodemodContext()
    for home, name in sorted(editor.imports, key=str):
        AddImportsVisitor.add_needed_import(context, home, name)
    for home, name in sorted(editor.dropped):
        RemoveImportsVisitor.remove_unused_import(context, home, name)
    tree = AddImportsVisitor(context).transform_module(tree)
    return RemoveImportsVisitor(context).transform_module(tree)
