"""A program's instructions as the calls of a joint graph, so that the same rules judge both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphcheck.artefacts.reach import Reached, reach
from graphcheck.artefacts.views import view_bases
from graphcheck.graph.pte_types import PteInstruction, PteMethod, PteProgram, PteValue
from graphcheck.graph.signatures import Signature, signature_of
from graphcheck.graph.types import JointGraph, OpCall, ParameterFact, Source, TensorFact
from graphcheck.opset.registry import lowering_for
from graphcheck.opset.types import Opset

__all__ = ["Modules", "graph_of", "is_metadata", "tensor_fact"]

_DTYPE_NUMBERS = {0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16"} | {
    6: "float32",
    7: "float64",
    11: "bool",
    15: "bfloat16",
}
_METADATA = "__et_training_"
_SAME_WEIGHT = ("aten::t_copy.", "aten::permute_copy.", "aten::transpose_copy.", "aten::view_copy.")
_VIEW = "executorch_prim::et_view"


def is_metadata(method: PteMethod) -> bool:
    """Whether a method only tells an app where in the outputs of another gradients start."""
    return method.name.startswith(_METADATA)


def graph_of(program: PteProgram, opset: Opset) -> JointGraph:
    """The calls of every method, in order, with what their results reach.

    Shapes of dynamic tensors are unknown (`<=16`), and so are numbers that instructions compute.
    Modules are named where a weight tells them, else the instruction is. Buffers are left out:
    what a program does with them is measured on the program.
    """
    lowering = lowering_for(opset.runtime, opset.version)
    lowered = {**dict.fromkeys(lowering.exempt, ""), **lowering.kernels}
    calls: list[OpCall] = []
    parameters: dict[str, ParameterFact] = {}
    inputs: list[tuple[str, TensorFact]] = []
    methods = [method for method in program.methods if not is_metadata(method)]
    for method in methods:
        stated = program.training.get(method.name)
        reached = reach(method, stated)
        modules = Modules(method, reached, alone=len(methods) == 1)
        computed = {index for i in method.instructions for index in i.writes}
        arguments = _Arguments(method, computed)
        for instruction in method.instructions:
            if instruction.kind == "kernel":
                arguments = _Arguments(method, computed)
                source = modules.of(instruction)
                calls.append(_call(len(calls), instruction, arguments, reached, source, lowered))
        for index, name in reached.weights.items():
            value = method.values[index]
            parameters[name] = ParameterFact(name, value.dtype, value.shape, True, True)
        for number, index in enumerate(method.inputs):
            if method.values[index].kind == "tensor":
                fact = tensor_fact(method.values[index])
                inputs.append((f"{method.name} input {number}", fact))
    return JointGraph(
        calls=tuple(calls),
        parameters=tuple(parameters.values()),
        buffers=(),
        inputs=tuple(inputs),
        loss=None,
    )


def tensor_fact(value: PteValue) -> TensorFact:
    """The facts of a tensor of a program; a dynamic size is `<=` its bound."""
    fixed = value.dynamism == "static"
    shape: tuple[int | str, ...] = tuple(size if fixed else f"<={size}" for size in value.shape)
    strides: list[int | str] = [1] * len(value.shape)
    step = 1
    for dim in reversed(value.dim_order):
        strides[dim] = step if fixed else "?"
        step *= max(value.shape[dim], 1)
    return TensorFact(value.dtype, shape, tuple(strides), value.dim_order, f"value {value.index}")


class _Arguments:
    """Arguments of kernels in the form that conditions are asked about."""

    def __init__(self, method: PteMethod, computed: set[int]) -> None:
        self.values = method.values
        self.computed = computed
        self._facts: dict[int, TensorFact] = {}

    def __call__(self, index: int, name: str = "") -> Any:
        value = self.values[index]
        if value.kind == "tensor":
            return self.tensor(index)
        if value.kind in ("tensor_list", "optional_tensor_list", "int_list"):
            return [None if item < 0 else self(item) for item in value.items]
        if value.kind in ("double_list", "bool_list"):
            return list(value.items)
        if index in self.computed and value.kind != "none":
            return f"value {index}"
        if name == "dtype" and isinstance(value.value, int):
            return f"torch.{_DTYPE_NUMBERS.get(value.value, value.value)}"
        return value.value

    def tensor(self, index: int) -> TensorFact:
        """The facts of a tensor, of which most are read by several instructions."""
        if index not in self._facts:
            self._facts[index] = tensor_fact(self.values[index])
        return self._facts[index]

    def outputs(self, instruction: PteInstruction) -> tuple[TensorFact, ...]:
        return tuple(self.tensor(i) for i in instruction.writes if self.values[i].kind == "tensor")


def _call(
    index: int,
    instruction: PteInstruction,
    arguments: _Arguments,
    reached: Reached,
    source: Source,
    lowered: Mapping[str, str],
) -> OpCall:
    signature = signature_of(instruction.op)
    op, overload = _op_of(instruction.op, signature, lowered)
    named: dict[str, Any] = {}
    if signature is not None:
        count = len(signature.arguments)
        given = zip(signature.arguments, instruction.args[:count], strict=False)
        named = {name: arguments(value, name) for name, value in given}
    number = instruction.index
    return OpCall(
        index=index,
        node=f"{source.function}:{number}",
        op=op,
        overload=overload,
        arguments=named,
        outputs=arguments.outputs(instruction),
        source=source,
        backward=number > reached.loss_at >= 0,
        gradients=reached.gradients(number),
        reaches_loss=reached.outcome(number),
        buffers=reached.buffers(number),
        is_core_aten=True,
        out_variant=instruction.op,
    )


def _op_of(kernel: str, signature: Signature | None, lowered: Mapping[str, str]) -> tuple[str, str]:
    """The op that the kernel stands for, by which advisories and mends know it.

    An op that lowering makes something else of (`lowered`) is not what the program calls.
    """
    if signature is not None:
        functional = f"{signature.op}.{signature.overload}"
        if lowered.get(functional, kernel) == kernel:
            return signature.op, signature.overload
    namespace, _, rest = kernel.partition("::")
    name, _, overload = rest.partition(".")
    return f"{namespace}.{name}", overload or "default"


class Modules:
    """Names a module for each instruction: that of the weight it reads.

    In the forward pass it is else the module before (`after conv1`), then the instruction itself.
    """

    def __init__(self, method: PteMethod, reached: Reached, *, alone: bool) -> None:
        self.method = method
        self.alone = alone
        self.before = ""
        trains = reached.loss_at >= 0
        self.loss_at = reached.loss_at if trains else len(method.instructions)
        weights = reached.weights
        self.base = view_bases(method)
        self.names = dict(weights)
        self.names.update(
            {v.index: v.name for v in method.values if v.name and v.index not in weights}
        )
        for instruction in method.instructions:
            if instruction.op.startswith((*_SAME_WEIGHT, _VIEW)) and instruction.args:
                name = self.names.get(self.base(instruction.args[0]))
                if name:
                    for index in instruction.writes:
                        self.names.setdefault(index, name)

    def of(self, instruction: PteInstruction) -> Source:
        """The place of an instruction; ask in order."""
        name = next(iter(self._read(instruction.reads)), "")
        module = name.rpartition(".")[0] or name
        if instruction.index <= self.loss_at:
            self.before = module or self.before
            module = module or (f"after {self.before}" if self.before else "")
        if not module:
            where = "" if self.alone or self.method.name == "forward" else f"{self.method.name}, "
            module = f"{where}instruction {instruction.index}"
        return Source(module=module, function=self.method.name)

    def _read(self, values: Sequence[int]) -> Iterable[str]:
        bases = map(self.base, values)
        return (self.names[index] for index in bases if index in self.names)
