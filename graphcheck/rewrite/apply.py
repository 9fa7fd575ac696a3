"""Replaces chosen nodes of an exported program by the graphs of their rewrites.

The rewrite's `decompose` is traced on the node's own fake arguments, in the fake mode of the graph,
so that symbolic sizes stay symbols; core ATen decompositions take what it calls down to core ops.
The traced nodes then stand where the node stood and carry its provenance. Everything else in the
program stays: other nodes of the same op, names, order of outputs, parameters, buffers, constants.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from graphcheck.rewrite.interface import Rewrite, rewrites_for

__all__ = ["Applied", "apply", "qualified_name"]

# What a new node takes over from the node it replaces.
_PROVENANCE = (
    "custom",
    "partitioner_tag",
    "stack_trace",
    "nn_module_stack",
    "source_fn_stack",
    "from_node",
    "seq_nr",
    "autograd_backward",
)


@dataclass(frozen=True)
class Applied:
    """What became of one chosen node.

    `rewrite` is the one that was applied, or the last one tried; `reason` says why the node stayed,
    empty when it was replaced. `new_nodes` are the names of the nodes that stand for it now.
    `new_bytes` is the size of all tensors they make, results included, and `old_bytes` that of
    what the node made; with symbolic sizes both are for the example inputs.
    """

    node: str
    op: str
    rewrite: Rewrite
    reason: str = ""
    new_nodes: tuple[str, ...] = ()
    new_bytes: int = 0
    old_bytes: int = 0

    @property
    def applied(self) -> bool:
        """Whether the node was replaced."""
        return not self.reason

    @property
    def growth(self) -> int:
        """Bytes of intermediate tensors that were not there before (an upper bound: they die)."""
        return max(0, self.new_bytes - self.old_bytes) if self.applied else 0


class _Declined(Exception):
    """`decompose` answered NotImplemented."""


def qualified_name(target: Any) -> str:
    """`aten.add.Tensor` of an overload; "" of anything that is no operator."""
    import torch

    if not isinstance(target, torch._ops.OpOverload):
        return ""
    return f"{target.namespace}.{target.overloadpacket.__name__}.{target._overloadname}"


def apply(
    program: Any,
    choose: Callable[[Any], Rewrite | None],
    *,
    stage: str = "joint",
    candidates: Callable[[str], tuple[Rewrite, ...]] = rewrites_for,
) -> tuple[Any, list[Applied]]:
    """Replace the nodes of an `ExportedProgram` for which `choose` names a rewrite.

    Returns a new program and what became of each chosen node, in graph order; the given program is
    not changed. A rewrite that declines (NotImplemented) hands on to the other `candidates` of its
    op and stage, and then the node stays. Nodes that a rewrite brings in are offered to `choose`,
    too, though never to a rewrite they come from. Applying twice changes nothing more.

    `stage` "forward" keeps to the exported program's own level: nothing is decomposed beyond what
    the rewrite itself does, so that the result can still be differentiated.

    Raises ValueError when a rewrite breaks its contract: another shape, dtype or number of results
    than the op, a lifted constant, an op that writes into its arguments.
    """
    import torch

    module, signature = _copied(program)
    graph = module.graph
    context = _Context(_fake_mode(graph), _table(stage), stage, candidates)
    results: list[Applied] = []
    ancestry: dict[Any, tuple[str, ...]] = {}
    node = next(iter(graph.nodes))
    while node.op != "root":
        following = node.next
        rewrite = choose(node) if isinstance(node.target, torch._ops.OpOverload) else None
        # A rewrite never sees its own products again.
        if rewrite is not None and rewrite.name not in ancestry.get(node, ()):
            done, new = _replace(graph, node, rewrite, context)
            results.append(done)
            line = (*ancestry.get(node, ()), done.rewrite.name)
            ancestry.update(dict.fromkeys(new, line))
            if done.applied:
                following = new[0] if new else following
        node = following
    if not any(result.applied for result in results):
        return program, results
    graph.lint()
    module.recompile()
    _rename_outputs(graph, signature)
    return program._update(module, signature), results


@dataclass
class _Context:
    mode: Any
    table: dict[Any, Any]
    stage: str
    candidates: Callable[[str], tuple[Rewrite, ...]]


def _copied(program: Any) -> tuple[Any, Any]:
    """Copies of graph module and signature, every node with the name it had."""
    module = copy.deepcopy(program.graph_module)
    for old, new in zip(program.graph.nodes, module.graph.nodes, strict=True):
        if old.name != new.name:
            # Copying renames what looks like a keyword of Python (`input`).
            new.name = old.name
            module.graph._graph_namespace._used_names.add(old.name)
    return module, copy.deepcopy(program.graph_signature)


def _fake_mode(graph: Any) -> Any:
    from torch._guards import detect_fake_mode
    from torch._subclasses import FakeTensorMode

    found = detect_fake_mode([node.meta.get("val") for node in graph.nodes])
    return FakeTensorMode() if found is None else found


def _table(stage: str) -> dict[Any, Any]:
    if stage == "forward":
        return {}
    from torch._decomp import core_aten_decompositions

    table: dict[Any, Any] = dict(core_aten_decompositions())
    return table


def _replace(
    graph: Any, node: Any, rewrite: Rewrite, context: _Context
) -> tuple[Applied, list[Any]]:
    name = qualified_name(node.target)
    others = [
        other
        for other in context.candidates(name)
        if other.stage == rewrite.stage and other.name != rewrite.name
    ]
    tried = []
    for candidate in (rewrite, *others):
        tried.append(candidate.name)
        traced = _trace(node, candidate, context)
        if traced is None:
            continue
        old_bytes = _bytes(node.meta.get("val"))
        new = _inline(graph, node, traced)
        size = sum(_bytes(n.meta.get("val")) for n in new if _is_made(n))
        names = tuple(n.name for n in new)
        return Applied(node.name, name, candidate, "", names, size, old_bytes), new
    reason = f"{' and '.join(tried)} cannot express these arguments of {name}"
    return Applied(node.name, name, candidate, reason), []


def _trace(node: Any, rewrite: Rewrite, context: _Context) -> Any | None:
    """The graph of a rewrite on the node's arguments, its placeholders in the order of
    `node.all_input_nodes`; None if the rewrite declines."""
    import torch
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx

    inputs = node.all_input_nodes
    expected = node.meta.get("val")

    def run(*values: Any) -> Any:
        held = dict(zip(inputs, values, strict=True))
        arguments = [_filled(value, held) for value in node.args]
        keywords = {key: _filled(value, held) for key, value in node.kwargs.items()}
        result = rewrite.decompose(*arguments, **keywords)
        if result is NotImplemented:
            raise _Declined
        return _as_expected(result, expected, rewrite, node)

    try:
        with context.mode, enable_python_dispatcher(), torch.no_grad():
            traced = make_fx(run, decomposition_table=context.table)(
                *(value.meta["val"] for value in inputs)
            )
    except _Declined:
        return None
    traced.graph.eliminate_dead_code()
    _check_graph(traced.graph, rewrite, node)
    return traced


def _filled(value: Any, held: dict[Any, Any]) -> Any:
    """An argument with values for nodes; lists are plain lists."""
    if isinstance(value, (list, tuple)):
        items = [_filled(item, held) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {key: _filled(item, held) for key, item in value.items()}
    try:
        return held.get(value, value)
    except TypeError:
        return value


def _as_expected(result: Any, expected: Any, rewrite: Rewrite, node: Any) -> Any:
    """Hold a rewrite to its contract; give results the strides of the op they replace."""
    import torch
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    many = isinstance(expected, (list, tuple))
    results = list(result) if many else [result]
    wanted = list(expected) if many else [expected]
    where = f"rewrite {rewrite.name} of {node.name}"
    if len(results) != len(wanted):
        raise ValueError(f"{where} returns {len(results)} results, the op {len(wanted)}")
    for index, (have, want) in enumerate(zip(results, wanted, strict=True)):
        if have is None or want is None or not isinstance(want, torch.Tensor):
            # A hole of the op (a gradient that is not asked for) has no user.
            continue
        if have.dtype != want.dtype or len(have.shape) != len(want.shape):
            raise ValueError(
                f"{where}: result {index} is {have.dtype} {list(have.shape)}, "
                f"the op gives {want.dtype} {list(want.shape)}"
            )
        if free_unbacked_symbols(want):
            # Sizes that come from the data have new symbols now; no layout says what they are.
            continue
        for one, other in zip(have.shape, want.shape, strict=True):
            if one != other:
                raise ValueError(
                    f"{where}: result {index} has shape {list(have.shape)}, "
                    f"the op gives {list(want.shape)}"
                )
        results[index] = _restrided(have, want)
    return tuple(results) if many else results[0]


def _restrided(have: Any, want: Any) -> Any:
    """A tensor like `have` with the strides of `want`, as far as the runtime has such a layout."""
    import torch

    if have.dim() == 0 or tuple(have.stride()) == tuple(want.stride()):
        return have
    clone = torch.ops.aten.clone.default
    for format_, rank in (
        (torch.contiguous_format, 0),
        (torch.channels_last, 4),
        (torch.channels_last_3d, 5),
    ):
        if rank in (0, want.dim()) and want.is_contiguous(memory_format=format_):
            fits = have.is_contiguous(memory_format=format_)
            return have if fits else clone(have, memory_format=format_)
    if any(isinstance(stride, torch.SymInt) for stride in want.stride()):
        return clone(have, memory_format=torch.contiguous_format)
    # A permuted layout: a row-major tensor seen through a permutation.
    order = sorted(range(want.dim()), key=lambda dim: -want.stride(dim))
    inner = clone(have.permute(order), memory_format=torch.contiguous_format)
    return inner.permute([order.index(dim) for dim in range(want.dim())])


def _check_graph(graph: Any, rewrite: Rewrite, node: Any) -> None:
    for new in graph.nodes:
        if new.op == "get_attr":
            raise ValueError(
                f"rewrite {rewrite.name} of {node.name} lifts a constant; build it with full or "
                "arange"
            )
        if new.op == "call_function" and hasattr(new.target, "_schema"):
            schema = new.target._schema
            if schema.is_mutable:
                raise ValueError(
                    f"rewrite {rewrite.name} of {node.name} calls {new.target}, which writes into "
                    "its argument"
                )


def _inline(graph: Any, node: Any, traced: Any) -> list[Any]:
    """Put the traced graph in the node's place; returns the new nodes in order."""
    provenance = {key: node.meta[key] for key in _PROVENANCE if key in node.meta}
    held = dict(
        zip(
            (n for n in traced.graph.nodes if n.op == "placeholder"),
            list(node.all_input_nodes),
            strict=True,
        )
    )
    new: list[Any] = []
    results: Any = None
    with graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "placeholder":
                continue
            if inner.op == "output":
                results = _filled(inner.args[0], held)
                continue
            made = graph.node_copy(inner, held.__getitem__)
            made.meta = {
                **{k: inner.meta[k] for k in ("val", "tensor_meta") if k in inner.meta},
                **{k: copy.copy(v) for k, v in provenance.items()},
            }
            held[inner] = made
            new.append(made)
    if isinstance(results, (list, tuple)):
        for user in list(node.users):
            # Only getitem nodes use an op with several results.
            user.replace_all_uses_with(results[user.args[1]])
            graph.erase_node(user)
    else:
        node.replace_all_uses_with(results)
    graph.erase_node(node)
    # A result nobody asked for takes what only it needed with it.
    for made in reversed(new):
        if not made.users and not made.is_impure():
            graph.erase_node(made)
    return [made for made in new if not made._erased]


def _is_made(node: Any) -> bool:
    """Whether the node makes a new tensor in the runtime; a `view` is only another shape."""
    return not str(node.target).startswith(("aten.view.", "aten._unsafe_view.", "<built-in"))


def _bytes(value: Any) -> int:
    import torch

    total = 0
    for tensor in _tensors(value):
        count = 1
        for size in tensor.shape:
            hint = size.node.hint if isinstance(size, torch.SymInt) else size
            count *= hint if isinstance(hint, int) else 1
        total += count * tensor.element_size()
    return total


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _rename_outputs(graph: Any, signature: Any) -> None:
    """Give the signature the names of the nodes that are now the outputs."""
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    for value, spec in zip(output.args[0], signature.output_specs, strict=True):
        if hasattr(value, "name") and hasattr(spec.arg, "name"):
            spec.arg.name = value.name
