"""What a `.pte` program says: its methods, instructions and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from graphcheck.errors import ModelError

__all__ = [
    "Allocation",
    "PteInstruction",
    "PteMethod",
    "PteProgram",
    "PteValue",
    "TrainingMetadata",
]


@dataclass(frozen=True)
class Allocation:
    """Where the memory plan puts a tensor: `offset` bytes into buffer `memory_id` (from 1)."""

    memory_id: int
    offset: int


@dataclass(frozen=True)
class PteValue:
    """An entry of a method's value table.

    `kind` is none, int, bool, double, tensor, string, int_list, double_list, bool_list,
    tensor_list or optional_tensor_list; `value` holds numbers and strings, `items` the lists (for
    int_list, tensor_list and optional_tensor_list indices of values, -1 for a hole).

    Tensors: `dtype` by torch's short name; `shape` is the upper bound when `dynamism` is "bound";
    `nbytes` that of this shape. `constant` tensors live in the file. `initialized` ones are
    planned and start with data of the file (weights, buffers). `name` is the fully qualified
    name, if the file has it. `data` numbers the file's piece of data that the tensor is (from 1;
    tensors can share one); `external` ones have theirs in another file (.ptd), by name.
    """

    index: int
    kind: str
    value: Any = None
    items: tuple[Any, ...] = ()
    dtype: str = ""
    shape: tuple[int, ...] = ()
    dim_order: tuple[int, ...] = ()
    allocation: Allocation | None = None
    nbytes: int = 0
    constant: bool = False
    initialized: bool = False
    dynamism: Literal["static", "bound", "unbound"] = "static"
    name: str = ""
    data: int = 0
    external: bool = False


@dataclass(frozen=True)
class PteInstruction:
    """One instruction of chain 0, in order.

    `args` are value indices: of a kernel all arguments with the out arguments and then the
    returned value; of a delegate inputs and outputs; of a move (from, to); of a jump its
    condition; of a free the value. `target` is a jump's destination, `delegate`
    the number of the delegate that is called, both -1 otherwise.

    `writes` are the values the instruction writes. The rule (from `exir/emit/_emitter.py`): a
    kernel call ends with what the kernel returns. An out variant returns its out arguments: for
    one the same value index again, for several or a list a tensor list of their indices. A view
    and an op on numbers end with their result. An in-place op (name ending with `_`) also writes
    its first argument; `et_copy_index` writes that alone. () for a delegate: its arguments do not
    tell inputs from outputs. `reads` are the other arguments, and what is changed in place.
    """

    index: int
    kind: Literal["kernel", "delegate", "move", "jump_false", "free"]
    op: str = ""
    args: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    target: int = -1
    delegate: int = -1


@dataclass(frozen=True)
class PteMethod:
    """A method: `buffer_sizes[i]` bytes of planned memory for memory id i (0 is not used).

    `delegates` are names of backends, `delegate_sizes` the bytes that each call target has in the
    file.
    """

    name: str
    values: tuple[PteValue, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    operators: tuple[str, ...] = ()
    instructions: tuple[PteInstruction, ...] = ()
    delegates: tuple[str, ...] = ()
    buffer_sizes: tuple[int, ...] = ()
    chains: int = 1
    delegate_sizes: tuple[int, ...] = ()

    @property
    def arena_bytes(self) -> int:
        """Bytes of planned memory: activations, inputs, weights and buffers."""
        return sum(self.buffer_sizes[1:])

    def tensors(self, index: int) -> tuple[int, ...]:
        """The tensors a value stands for: itself, or the members of a list."""
        value = self.values[index]
        if value.kind == "tensor":
            return (index,)
        if value.kind in ("tensor_list", "optional_tensor_list"):
            return tuple(item for item in value.items if item >= 0)
        return ()


@dataclass(frozen=True)
class TrainingMetadata:
    """What a device app reads to train `method`: where in its outputs gradients and parameters
    start, and their names. Nothing here says that it is right."""

    method: str
    gradients_index: int
    parameters_index: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class PteProgram:
    """A program; `training` by method name, for methods that can be trained.

    `size` is that of the file, `program_size` that of its flatbuffer, `constant_size` and
    `mutable_size` those of the data of constants and of initial values, all in bytes.
    """

    methods: tuple[PteMethod, ...]
    training: Mapping[str, TrainingMetadata] = field(default_factory=dict)
    schema_version: int = 0
    size: int = 0
    program_size: int = 0
    constant_size: int = 0
    mutable_size: int = 0

    def method(self, name: str = "forward") -> PteMethod:
        """The method of that name; raises ModelError if there is none."""
        for method in self.methods:
            if method.name == name:
                return method
        have = ", ".join(method.name for method in self.methods) or "none"
        raise ModelError(f"the program has no method {name!r} (it has: {have})")
