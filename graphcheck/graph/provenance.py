"""From a node of the exported program to the user's module and source line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphcheck.graph.trace import MARK, NEAR
from graphcheck.graph.types import Source

__all__ = ["Provenance"]

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$')


@dataclass
class Provenance:
    """Looks up the `Source` of joint nodes through the marks that `trace_joint` set."""

    exported: Any
    prefix: str = ""
    root_type: str = ""
    _sources: dict[str, Source] = field(default_factory=dict)
    _nodes: Mapping[str, Any] = field(default_factory=dict)
    _hidden: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        import torch

        self._nodes = {node.name: node for node in self.exported.graph.nodes}
        # The input wrapper and the tracer are not the user's code.
        self._hidden = tuple(
            os.path.dirname(os.path.abspath(file)) + os.sep
            for file in (torch.__file__, os.path.dirname(__file__))
        )

    def source(self, joint_node: Any) -> Source:
        """The source of a joint node; an empty one if its origin was lost.

        A node that autograd adds by itself (the sum of two gradients of one tensor) has no forward
        op: it is told as its nearest producer.
        """
        mark = self._mark(joint_node)
        if mark is None:
            return Source(module="", module_type="")
        if mark not in self._sources:
            self._sources[mark] = self.of_exported(self._nodes[mark])
        return self._sources[mark]

    def origin(self, joint_node: Any) -> str:
        """The op of the exported program that a joint node comes from, "" if it was lost."""
        mark = self._mark(joint_node)
        return "" if mark is None else str(self._nodes[mark].target)

    def _mark(self, joint_node: Any) -> str | None:
        todo, seen = [joint_node], set()
        while todo:
            node = todo.pop(0)
            mark: str | None = (node.meta.get("custom") or {}).get(MARK)
            if mark is not None:
                return mark
            seen.add(node)
            todo += [producer for producer in node.all_input_nodes if producer not in seen]
        return None

    def of_exported(self, node: Any) -> Source:
        """The source of a node of the exported program, or of a region in it."""
        path, type_name = self._module(node.meta.get("nn_module_stack") or {})
        file, line, function, code = self._frame(node.meta.get("stack_trace") or "")
        near = "" if path else (node.meta.get("custom") or {}).get(NEAR, "")
        return Source(
            module=path or near or "forward",
            module_type=type_name,
            file=file,
            line=line,
            code=code,
            function=function,
        )

    def _module(self, stack: Mapping[str, tuple[str, Any]]) -> tuple[str, str]:
        path, kind = [("", ""), *stack.values()][-1]
        kind = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
        path = clean_module_path(path, self.prefix)
        return path, (kind if path else self.root_type or kind).rsplit(".", 1)[-1]

    def _frame(self, trace: str) -> tuple[str, int, str, str]:
        """Innermost frame that is not torch's or ours: file, line, function, code."""
        best = ("", 0, "", "")
        lines = trace.splitlines()
        for index, text in enumerate(lines):
            match = _FRAME.match(text)
            if match is None or match["file"].startswith(self._hidden):
                continue
            if match["file"].startswith("<"):
                continue
            code = lines[index + 1].strip() if index + 1 < len(lines) else ""
            best = (match["file"], int(match["line"]), match["function"].strip(), code)
        return best


def clean_module_path(path: str, prefix: str) -> str:
    """The path as the user knows it: without the loss wrapper and without call counters (`@1`)."""
    path = re.sub(r"@\d+", "", path)
    root = prefix.rstrip(".")
    if root and path == root:
        return ""
    if prefix and path.startswith(prefix):
        return path[len(prefix) :]
    return path
