"""What to write in place of an operator that writes into a tensor the backward pass needs."""

from __future__ import annotations

import re
from typing import Any

from graphcheck.workload.user_code import Frame

__all__ = ["short_name", "without_writing"]

_AUGMENTED = re.compile(r"(?P<name>[\w.]+) (?P<operator>[-+*/@%|&^]|//|\*\*|<<|>>)= (?P<value>.+)")
_ELEMENT = re.compile(r"(?P<name>[\w.]+)\[.*\] ?[^\w\s=]{0,2}= ?[^=]")


def short_name(node: Any) -> str:
    """`add_` of `aten.add_.Tensor`."""
    return str(node.target).removeprefix("aten.").partition(".")[0]


def without_writing(exported: Any, node: Any | None, frame: Frame | None) -> str:
    """How to do without the write that `node` makes on the user's line; a sentence without end."""
    buffer = _buffer(exported, node)
    code = frame.code.partition(" #")[0] if frame else ""
    augmented = _AUGMENTED.fullmatch(code)
    if augmented:
        name, operator, value = augmented["name"], augmented["operator"], augmented["value"]
        if not re.fullmatch(r"[\w.]+", value):
            value = f"({value})"
        return f"Make a new tensor: `{name} = {name} {operator} {value}`"
    if buffer:
        return f"Read a copy of it (`{buffer}.clone()`), or assign the new value (`{buffer} = ...`)"
    element = _ELEMENT.match(code)
    if element:
        name = element["name"]
        return f"Write into a copy: `{name} = {name}.clone()` in the line before"
    if node is None:
        return "Make a new tensor in place of the write"
    written = short_name(node)
    made = written.rstrip("_")
    if f"{written}(" in code:
        return f"Make a new tensor: `{made}` in place of `{written}`, and use what it returns"
    return (
        f"Make a new tensor: `{made}` in place of `{written}` (inplace=False where it is a layer)"
    )


def _buffer(exported: Any, node: Any | None) -> str:
    """The buffer that is written, as `self.name`; "" for another tensor."""
    while node is not None and node.op == "call_function" and node.args:
        node = node.args[0] if hasattr(node.args[0], "op") else None
        if node is not None and node.op == "placeholder":
            name = exported.graph_signature.inputs_to_buffers.get(node.name, "")
            return f"self.{name.rpartition('.')[2]}" if name else ""
        if node is not None and not _keeps_storage(node):
            return ""
    return ""


def _keeps_storage(node: Any) -> bool:
    """Whether the result of an operator is memory of its first argument."""
    schema = getattr(node.target, "_schema", None)
    return bool(
        schema
        and schema.arguments
        and schema.returns
        and schema.arguments[0].alias_info is not None
        and schema.returns[0].alias_info is not None
    )
