"""Buffers that forward assigns anew (`self.n += 1`, `self.mean = 0.9 * self.mean + ...`).

Eager binds the name to another tensor, so what autograd saved of the old one stays as it was.
`torch.export` writes the new value into the old tensor at the end of the graph instead, and its
joint trace then refuses: a saved tensor was modified. Measured with torch 2.14: `h / self.mean`
before such an assignment, and `h / self.n` after `self.n += 1`.

Export does so for buffers of the outermost module alone: in an inner one, and everywhere in strict
export, it drops the assignment without a word. What is written in place is kept always.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Container, Iterator
from typing import Any

from graphcheck.graph.buffer_writes import is_written
from graphcheck.graph.module_state import ModuleState
from graphcheck.graph.surroundings import Surroundings
from graphcheck.workload.grad_mode import without_gradients
from graphcheck.workload.probe import isolated_copy
from graphcheck.workload.seeding import seeded
from graphcheck.workload.types import Workload

__all__ = [
    "as_export_names_them_",
    "assignments_written",
    "dropped_assignments",
    "keep_saved_values",
    "overwrites",
    "was_modified",
    "writes_in_place",
]

_WRITE = "copy__default"
"""How export (torch 2.14) names its write of an assigned buffer."""


def was_modified(error: BaseException) -> bool:
    """Whether autograd refused because a tensor that it saved was modified."""
    return isinstance(error, RuntimeError) and "modified by an inplace operation" in str(error)


def keep_saved_values(exported: Any) -> bool:
    """Let what reads an assigned buffer read what eager reads; changes the exported graph.

    A write of a buffer into itself is dropped; else everything but the write reads a copy that was
    made at the start. False where the graph has no such write, and is as it was.
    """
    import torch

    graph = exported.graph_module.graph
    writes = list(_added_writes(exported))
    first = next((node for node in graph.nodes if node.op not in ("placeholder", "get_attr")), None)
    for write in writes:
        buffer, value = write.args
        if _written_in_place(value) is buffer:
            graph.erase_node(write)
            continue
        with graph.inserting_before(first):
            kept = graph.call_function(torch.ops.aten.clone.default, (buffer,))
        kept.meta = {
            key: value for key, value in buffer.meta.items() if key in ("val", "tensor_meta")
        }
        buffer.replace_all_uses_with(kept, lambda user, stay=(write, kept): user not in stay)
    if writes:
        exported.graph_module.recompile()
    return bool(writes)


def dropped_assignments(exported: Any, workload: Workload) -> tuple[str, ...]:
    """Buffers that forward assigns and the exported program does not write.

    Their tensor is another one after forward, or has other values. Runs forward once, on a copy,
    where the program has buffers that it does not write.
    """

    nodes = {n.name: n for n in exported.graph_module.graph.nodes if n.op == "placeholder"}
    written = {*exported.graph_signature.buffers_to_mutate.values()} | {
        target
        for name, target in exported.graph_signature.inputs_to_buffers.items()
        if is_written(nodes[name])
    }
    whole = all(name in written for name, _ in workload.module.named_buffers())
    if whole and not any(map(_converts, exported.graph_module.graph.nodes)):
        return ()
    args, kwargs = workload.copied_inputs()
    # It shares the weights, of which a large model has no room for a copy.
    module = isolated_copy(workload.module)
    state = ModuleState(module, Surroundings(workload.module))
    before = {name: (tensor, tensor.clone()) for name, tensor in module.named_buffers()}
    try:
        with seeded(0):
            without_gradients(lambda: module(*args, **kwargs))
        return tuple(
            name
            for name, tensor in module.named_buffers()
            if _reformed(tensor, before.get(name, (tensor, tensor))[1])
            or (name not in written and _moved(tensor, *before.get(name, (None, None))))
        )
    except Exception:
        return ()  # what forward raises is told where the model is checked
    finally:
        state.put()


def _converts(node: Any) -> bool:
    """Whether a node writes values of another type into a tensor, as an assignment would not."""
    import torch

    if node.target is not torch.ops.aten.copy_.default:
        return False
    return len({getattr(value.meta.get("val"), "dtype", None) for value in node.args[:2]}) > 1


def _reformed(tensor: Any, before: Any) -> bool:
    """Whether it has another shape or type, which a program's buffer cannot have."""
    return bool(tensor.shape != before.shape or tensor.dtype != before.dtype)


def _moved(tensor: Any, old: Any, before: Any) -> bool:
    import torch

    if tensor is not old:
        return True
    return not torch.equal(tensor, before)


@contextlib.contextmanager
def assignments_written(module: Any) -> Iterator[None]:
    """Meanwhile forward ends by writing what it has assigned to buffers into the tensors they were.

    Assignments of another shape or type stay as they are.
    """
    original = module.forward
    overridden = "forward" in vars(module)

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        before = [
            (inner, name, tensor)
            for inner in module.modules()
            for name, tensor in inner._buffers.items()
            if tensor is not None
        ]
        result = original(*args, **kwargs)
        written = [
            # A copy of each before the first is written: buffers may have changed places.
            (inner, name, tensor, new.clone())
            for inner, name, tensor in before
            if (new := inner._buffers.get(name)) is not None
            and new is not tensor
            and new.shape == tensor.shape
            and new.dtype == tensor.dtype
        ]
        for inner, name, tensor, new in written:
            tensor.copy_(new)
            inner._buffers[name] = tensor
        return result

    # That of the class may be written out, and begin with self.
    forward.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    module.forward = forward
    try:
        yield
    finally:
        if overridden:
            module.forward = original
        else:
            del module.forward


def as_export_names_them_(exported: Any, names: Container[str]) -> None:
    """Give the writes that `assignments_written` made the name of those that export adds."""
    import torch

    graph, buffers = exported.graph_module.graph, exported.graph_signature.inputs_to_buffers
    for node in reversed(graph.nodes):
        if node.op == "output":
            continue
        if node.target is not torch.ops.aten.copy_.default or node.users:
            return
        if buffers.get(node.args[0].name) in names:
            node._rename(_WRITE)


def writes_in_place(node: Any) -> bool:
    """Whether an exported node is an operator that writes its result into its first argument."""
    import torch

    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    schema = node.target._schema
    aliases = [value.alias_info for value in (*schema.arguments[:1], *schema.returns)]
    if len(aliases) != 2 or None in aliases:
        return False
    written, returned = aliases
    return bool(written.is_write and written.before_set == returned.before_set)


def overwrites(node: Any) -> bool:
    """Whether it does so to a tensor that was read before."""
    return writes_in_place(node) and any(
        user is not node and user < node for user in node.args[0].users
    )


def _added_writes(exported: Any) -> Iterator[Any]:
    """The writes that export has added at the end of the graph, the last one first.

    A `copy_` in the user's own words is named `copy_`, not after the overload; that one is refused
    by eager, too.
    """
    import torch

    buffers = exported.graph_signature.inputs_to_buffers
    for node in reversed(exported.graph_module.graph.nodes):
        if node.op == "output":
            continue
        if node.target is not torch.ops.aten.copy_.default or node.users:
            return
        if node.name.startswith(_WRITE) and node.args[0].name in buffers:
            yield node


def _written_in_place(node: Any) -> Any:
    """The tensor that a chain of in-place operators (`add_` of `mul_`) has written."""
    while writes_in_place(node):
        node = node.args[0]
    return node
