"""Random draws as inputs: a program that can be compared step by step, and reproduced.

The runtime cannot be given a seed. So every random op is taken apart into draws (uniform, normal,
integers, a permutation) and deterministic ops, and every draw becomes one more user input at the
end. `replayed` feeds the same draws into the user's own module, in eager.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphcheck.errors import ModelError
from graphcheck.rewrite.apply import apply, qualified_name
from graphcheck.rewrite.interface import Rewrite, rewrites_for

__all__ = ["DRAWS", "Draw", "by_rewrite", "draw_values", "draws_as_inputs", "replayed"]

DRAWS = {
    "aten.rand.default": "uniform",
    "aten.randn.default": "normal",
    "aten.randint.default": "integers",
    "aten.randint.low": "integers",
    "aten.randperm.default": "permutation",
}
_FUNCTIONAL = {
    "aten.bernoulli_.float": "aten.bernoulli.p",
    "aten.exponential_.default": "aten.exponential.default",
    "aten.uniform_.default": "aten.uniform.default",
    "aten.normal_.default": "aten.normal_functional.default",
    "aten.log_normal_.default": "aten.log_normal.default",
    "aten.cauchy_.default": "aten.cauchy.default",
    "aten.geometric_.default": "aten.geometric.default",
}
"""Eager's in-place ops and the functional ones they are in an exported program."""


@dataclass(frozen=True)
class Draw:
    """One random draw that is an input now.

    `name` is the input's; `shape` counts elements, with symbolic sizes as strings. `distribution`
    is uniform (`low` <= u < `high`), normal (standard), integers (`low` <= n < `high`) or
    permutation (of 0 ... `high` - 1). `position` counts the user inputs of the method, flattened.
    `module` is the path of the user's module that draws, where the caller knows it.
    """

    name: str
    position: int
    distribution: str
    shape: tuple[int | str, ...]
    dtype: str
    low: int = 0
    high: int = 0
    module: str = ""


def draws_as_inputs(
    program: Any, module_of: Callable[[Any], str] = lambda node: ""
) -> tuple[Any, tuple[Draw, ...]]:
    """A new exported program whose random draws are user inputs, and what they are, in order.

    `module_of` tells the module of a node of the program. A program without random ops is returned
    as it is. The given one is not changed. Raises ModelError for a random op that cannot be taken
    apart.
    """
    program, results = apply(program, _taken_apart)
    refused = [result for result in results if not result.applied]
    if refused:
        raise _no_form(refused[0].op, refused[0].node)
    for node in program.graph.nodes:
        if _is_random(node.target) and qualified_name(node.target) not in DRAWS:
            raise _no_form(qualified_name(node.target), node.name)
    return _with_inputs(program, module_of)


def _no_form(op: str, node: str) -> ModelError:
    return ModelError(
        f"the random op {op} ({node}) cannot take its randomness from an input",
        "leave --deterministic-dropout out, or draw the noise outside and pass it to forward",
    )


def _is_random(target: Any) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def _taken_apart(node: Any) -> Rewrite | None:
    name = qualified_name(node.target)
    if name in DRAWS or not _is_random(node.target):
        return None
    found = [rewrite for rewrite in rewrites_for(name) if rewrite.stage == "joint"]
    return found[0] if found else None


def _with_inputs(program: Any, module_of: Callable[[Any], str]) -> tuple[Any, tuple[Draw, ...]]:
    from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

    if not any(qualified_name(node.target) in DRAWS for node in program.graph.nodes):
        return program, ()
    module, signature = copy.deepcopy((program.graph_module, program.graph_signature))
    graph = module.graph
    for old, new in zip(program.graph.nodes, graph.nodes, strict=True):
        new.name = old.name
    random = [node for node in graph.nodes if qualified_name(node.target) in DRAWS]
    anchor = [node for node in graph.nodes if node.op == "placeholder"][-1]
    position = len(signature.user_inputs)
    draws = []
    for index, node in enumerate(random):
        with graph.inserting_after(anchor):
            anchor = graph.placeholder(f"draw_{index}")
        anchor.meta = {key: node.meta[key] for key in ("val", "tensor_meta") if key in node.meta}
        draw = replace(_draw(node, anchor.name, position + index), module=module_of(node))
        node.replace_all_uses_with(anchor)
        graph.erase_node(node)
        argument = TensorArgument(name=anchor.name)
        signature.input_specs.append(InputSpec(InputKind.USER_INPUT, argument, None))
        draws.append(draw)
    # What only fed a random op (an empty tensor to fill) goes with it.
    graph.eliminate_dead_code()
    graph.lint()
    module.recompile()
    changed = program._update(module, signature)
    _extend_calling_convention(changed, tuple(draws))
    return changed, tuple(draws)


def _draw(node: Any, name: str, position: int) -> Draw:
    value = node.meta["val"]
    op = qualified_name(node.target)
    low, high = 0, 0
    if op == "aten.randint.low":
        low, high = node.args[0], node.args[1]
    elif op in ("aten.randint.default", "aten.randperm.default"):
        high = node.args[0]
    elif DRAWS[op] == "uniform":
        high = 1
    return Draw(
        name,
        position,
        DRAWS[op],
        tuple(size if isinstance(size, int) else str(size) for size in value.shape),
        str(value.dtype).removeprefix("torch."),
        low,
        high,
    )


def _extend_calling_convention(program: Any, draws: tuple[Draw, ...]) -> None:
    """Tell the exported program that its forward takes more inputs: positional ones, or keywords
    where it has keywords, which come last."""
    from torch.export.graph_signature import TensorArgument
    from torch.utils._pytree import tree_flatten, tree_unflatten

    call = program.module_call_graph[0].signature
    leaves = list(range(call.in_spec.num_leaves))
    arguments, keywords = tree_unflatten(leaves, call.in_spec)
    names = [draw.name for draw in draws]
    if keywords:
        keywords = {**keywords, **dict.fromkeys(names, 0)}
    else:
        arguments = (*arguments, *names)
    call.in_spec = tree_flatten((arguments, keywords))[1]
    call.inputs = [*call.inputs, *(TensorArgument(name=name) for name in names)]
    if call.forward_arg_names is not None:
        call.forward_arg_names = [*call.forward_arg_names, *names]
    if program.example_inputs is not None:
        fixed = all(isinstance(size, int) for draw in draws for size in draw.shape)
        program._example_inputs = _with_examples(program.example_inputs, draws) if fixed else None


def _with_examples(inputs: Any, draws: tuple[Draw, ...]) -> Any:
    arguments, keywords = inputs
    values = draw_values(draws, 0)
    if keywords:
        named = dict(zip((draw.name for draw in draws), values, strict=True))
        return arguments, {**keywords, **named}
    return (*arguments, *values), keywords


def draw_values(draws: Sequence[Draw], seed: int, sizes: dict[str, int] | None = None) -> list[Any]:
    """Tensors for the draws, the same for the same seed; `sizes` gives symbolic sizes a value.

    Raises ModelError for a symbolic size without a value.
    """
    import torch

    random = torch.Generator().manual_seed(seed)
    values = []
    for draw in draws:
        shape = [_size(draw, size, sizes or {}) for size in draw.shape]
        dtype = getattr(torch, draw.dtype)
        if draw.distribution == "uniform":
            value = torch.rand(shape, generator=random, dtype=dtype)
        elif draw.distribution == "normal":
            value = torch.randn(shape, generator=random, dtype=dtype)
        elif draw.distribution == "integers":
            value = torch.randint(draw.low, draw.high, shape, generator=random, dtype=dtype)
        else:
            value = torch.randperm(draw.high, generator=random, dtype=dtype)
        values.append(value)
    return values


def _size(draw: Draw, size: int | str, sizes: dict[str, int]) -> int:
    found = sizes.get(size) if isinstance(size, str) else size
    if found is None:
        raise ModelError(f"the size {size} of the random input {draw.name} is not known")
    return found


@contextlib.contextmanager
def replayed(values: Sequence[Any]) -> Iterator[None]:
    """While this lasts, eager code draws `values`, in order, instead of random numbers.

    Random ops mean what their rewrites say: dropout keeps where the uniform is below 1 - p.
    Raises ModelError for a random op without rewrite, for a draw of another shape or dtype, and at
    the end for values that nothing drew.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    left = list(values)

    class Replay(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if torch.Tag.nondeterministic_seeded not in func.tags:
                return func(*args, **kwargs)
            name = qualified_name(func)
            if name in DRAWS and not _taken_from_uniforms(name, left):
                return _next(left, func(*args, **kwargs), name)
            # Within a rewrite the draws are asked for by their own ops.
            with self:
                return by_rewrite(name, args, kwargs)

    with Replay():
        yield
    if left:
        raise ModelError(
            f"{len(left)} of {len(values)} random inputs were not drawn in eager",
            "the model draws more in the program than in eager",
        )


def _taken_from_uniforms(name: str, left: Sequence[Any]) -> bool:
    """Whether the program makes these integers from the uniform numbers that come next."""
    whole = DRAWS[name] in ("integers", "permutation")
    return whole and bool(left) and left[0].is_floating_point()


def _next(left: list[Any], drawn: Any, name: str) -> Any:
    if not left:
        raise ModelError(f"eager draws once more than the program ({name})")
    value = left.pop(0)
    if value.shape != drawn.shape or value.dtype != drawn.dtype:
        raise ModelError(
            f"eager draws {list(drawn.shape)} of {drawn.dtype} ({name}) where the program draws "
            f"{list(value.shape)} of {value.dtype}"
        )
    return value.clone()


def by_rewrite(name: str, args: Any, kwargs: Any) -> Any:
    """What a random op of eager (`aten.exponential_.default`) gives, drawn as its rewrite draws.

    Raises ModelError for an op without one.
    """
    if name == "aten.rrelu_with_noise.default":
        # This one hands its slopes out through an argument.
        result, slopes = _decomposed("aten.rrelu_with_noise_functional.default", args, kwargs)
        args[1].copy_(slopes)
        return result
    if name == "aten.bernoulli_.Tensor":
        return args[0].copy_(_decomposed("aten.bernoulli.default", args[1:], kwargs))
    if name in _FUNCTIONAL:
        return args[0].copy_(_decomposed(_FUNCTIONAL[name], args, kwargs))
    return _decomposed(name, args, kwargs)


def _decomposed(name: str, args: Any, kwargs: Any) -> Any:
    for rewrite in rewrites_for(name):
        result = rewrite.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
    raise ModelError(f"the random op {name} cannot be replayed in eager")
