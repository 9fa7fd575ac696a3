"""What the graph room hands on: one `OpCall` per operator call of the joint graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

__all__ = [
    "Argument",
    "BufferFact",
    "FromData",
    "JointGraph",
    "LostDropout",
    "OpCall",
    "OutputKind",
    "ParameterFact",
    "Source",
    "TensorFact",
]


@dataclass(frozen=True)
class TensorFact:
    """What is known of a tensor without its values.

    `shape` and `stride` count elements; a symbolic size is its expression as a string.
    `dim_order` lists dims from the outermost to the innermost as ExecuTorch derives it from the
    strides (stable sort, largest stride first); () when a stride is symbolic and undecided.
    `node` names the graph node that makes the tensor.
    """

    dtype: str
    shape: tuple[int | str, ...]
    stride: tuple[int | str, ...]
    dim_order: tuple[int, ...]
    node: str = ""

    @property
    def rank(self) -> int:
        return len(self.shape)


Argument = Any
"""A `TensorFact`, a list of them (with None for holes), a number, bool, string, list or None."""


@dataclass(frozen=True)
class Source:
    """Where in the user's program an op comes from.

    `module` is the module path (`net.layer1.0.bn1`), "forward" for code of the root module itself.
    `file`/`line`/`code` are the innermost frame that is the user's own, not torch's; for a library
    model the innermost frame of that library. Empty where unknown.
    """

    module: str = "forward"
    module_type: str = ""
    file: str = ""
    line: int = 0
    code: str = ""
    function: str = ""
    constructed_file: str = ""
    constructed_line: int = 0


class OutputKind:
    """The roles an output of the joint graph can have."""

    LOSS = "loss"
    USER = "user_output"
    GRADIENT = "gradient"
    BUFFER = "buffer_mutation"


@dataclass(frozen=True)
class OpCall:
    """One operator call of the joint forward/backward graph.

    `op` is the name without overload (`aten.convolution_backward`), `overload` its overload name.
    `arguments` maps schema argument names to values, defaults filled in.
    `gradients` are the fully qualified names of the trainable parameters whose gradient depends
    on the result; `reaches_loss` whether the loss does; `buffers` the mutated buffers that do.
    """

    index: int
    node: str
    op: str
    overload: str
    arguments: Mapping[str, Argument]
    outputs: tuple[TensorFact, ...]
    source: Source
    backward: bool
    gradients: tuple[str, ...] = ()
    reaches_loss: bool = False
    buffers: tuple[str, ...] = ()
    is_core_aten: bool = True
    out_variant: str | None = None
    """Registry name of the out variant (`aten::add.out`), None when the op has none."""
    keeps_layout: bool = False
    """Whether a tensor of the call is in another memory layout than the default whatever the model,
    its inputs and forward ask for."""
    origin: str = ""
    """The op of the user's forward pass that the call comes from (`aten.cumprod.default`), ""
    where that is not known."""

    @property
    def qualified(self) -> str:
        """`aten.add.Tensor`"""
        return f"{self.op}.{self.overload}"

    @property
    def reaches_training(self) -> bool:
        """Whether a wrong result here can change training: a gradient, the loss or a buffer."""
        return bool(self.gradients or self.buffers or self.reaches_loss)

    @property
    def form(self) -> Hashable:
        """All that a kernel sees of the call: op, arguments and outputs, by their facts."""
        arguments = tuple((name, _form(value)) for name, value in self.arguments.items())
        outputs = tuple(map(_form, self.outputs))
        return (
            *(self.op, self.overload, self.out_variant, self.is_core_aten, self.backward),
            *(arguments, outputs),
        )


def _form(value: Argument) -> Hashable:
    """The value without the node that makes it; unlike `==`, this tells True from 1."""
    if isinstance(value, TensorFact):
        return (value.dtype, value.shape, value.stride, value.dim_order)
    if isinstance(value, (list, tuple)):
        return tuple(map(_form, value))
    return repr(value)


@dataclass(frozen=True)
class ParameterFact:
    """A parameter: `aliases` are further names of the same tensor (tied weights).

    Where it gets no gradient, `cut_by` is what cuts it off (`detach()`, `no_grad`) and `cut` the
    line, if that was found.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    trainable: bool
    has_gradient: bool
    aliases: tuple[str, ...] = ()
    module: str = ""
    cut_by: str = ""
    cut: Source | None = None


@dataclass(frozen=True)
class BufferFact:
    """A buffer the graph reads; `initial_nonzero` is whether its initial state holds a non-zero."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    mutated: bool
    persistent: bool = True
    initial_nonzero: bool = False
    module: str = ""
    module_type: str = ""


@dataclass(frozen=True)
class FromData:
    """A size or number that is known only when the program runs, and the call that makes it.

    `symbol` is torch's name (`u0`), `least` and `most` its bounds, None without an upper one.
    `size` is false for a number that is read out of a tensor (`.item()`).
    """

    symbol: str
    node: str
    most: int | None = None
    size: bool = True
    least: int = 0


@dataclass(frozen=True)
class LostDropout:
    """A recurrent op (`aten.gru`) whose dropout of `p` between layers the joint graph has not.

    `node` is the first joint node that comes from it.
    """

    op: str
    p: float
    node: str
    source: Source


@dataclass(frozen=True)
class JointGraph:
    """The joint forward/backward graph as facts; no torch object is kept.

    `strict` tells which tracer captured it. `not_checked` lists what capture had to leave out,
    each with its reason (for instance a parameter that was frozen to go on).
    """

    calls: tuple[OpCall, ...]
    parameters: tuple[ParameterFact, ...]
    buffers: tuple[BufferFact, ...]
    inputs: tuple[tuple[str, TensorFact], ...]
    loss: TensorFact | None
    dynamic: tuple[str, ...] = ()
    strict: bool = False
    not_checked: tuple[tuple[str, str], ...] = ()
    evaluating: tuple[tuple[str, str], ...] = ()
    """Path and type of modules in eval mode that would act differently in train mode."""
    example_facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts measured on the example data, by node name (for numerics rules)."""
    from_data: tuple[FromData, ...] = ()
    control_flow: tuple[tuple[str, Source], ...] = ()
    """Control flow operators (`cond`), whose branches are graphs of their own and are not read."""
    lost_dropout: tuple[LostDropout, ...] = ()

    @cached_property
    def alike(self) -> tuple[tuple[OpCall, ...], ...]:
        """The calls in groups of one form: what holds for the kernel of one, holds for all."""
        groups: dict[Hashable, list[OpCall]] = {}
        for call in self.calls:
            groups.setdefault(call.form, []).append(call)
        return tuple(map(tuple, groups.values()))
