"""A recorded instruction as a program of its own, written with the schema of the runtime's files.

The same operator with the same overload, numbers and dim orders; its tensors become inputs. In
planned memory every output has guard bytes on both sides, which are inputs that nothing reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphcheck.graph.pte import PteInstruction, PteMethod, read_pte
from graphcheck.runtime.types import ArrayInput, InstructionDump, TensorData

__all__ = ["OneOp", "one_op_program"]

_ALIGN = 64
_GUARD = 64
_GUARD_BYTE = 0xA5


@dataclass(frozen=True)
class OneOp:
    """`inputs` of the program (guards last); its outputs are those of the instruction, then the
    tensors it only reads (`unchanged`, numpy) and the guards."""

    program: bytes
    inputs: tuple[ArrayInput, ...]
    unchanged: tuple[Any, ...]
    guards: tuple[Any, ...]


def one_op_program(path: Path, method: str, record: InstructionDump) -> OneOp:
    """Cut the instruction of a dump out of a program.

    Raises NotImplementedError for an instruction that cannot stand alone.
    """
    source = read_pte(path).method(method)
    return _Cut(source, source.instructions[record.instruction], record).cut()


@dataclass
class _Cut:
    method: PteMethod
    instruction: PteInstruction
    record: InstructionDump
    values: list[Any] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    size: int = 0

    def cut(self) -> OneOp:
        import numpy
        from executorch.exir import schema
        from executorch.exir._serialize._program import PTEFile, serialize_pte_binary

        written = dict(zip(self._written(), self.record.outputs, strict=True))
        given: dict[int, TensorData] = {}
        for position, index in enumerate(self.instruction.args):
            self._collect(index, self.record.arguments[position], given)
        guards: list[int] = []
        arguments = []
        for index in (*given, *written):
            if index in self.places:
                continue
            if index in written:
                guards.append(self._guard())
            self.places[index] = self._tensor(given.get(index) or written[index])
            if index in written:
                guards.append(self._guard())
            self.size = -(-self.size // _ALIGN) * _ALIGN
        for position, index in enumerate(self.instruction.args):
            arguments.append(self._argument(index, self.record.arguments[position]))
        inputs = [self.places[index] for index in given]
        unchanged = [index for index in given if index not in written]
        outputs = [self.places[i] for i in (*written, *unchanged)] + guards
        name, _, overload = self.instruction.op.partition(".")
        plan = schema.ExecutionPlan(
            name="forward",
            container_meta_type=schema.ContainerMetadata("", ""),
            values=[schema.EValue(value) for value in self.values],
            inputs=inputs + guards,
            outputs=outputs,
            chains=[
                schema.Chain([], [], [schema.Instruction(schema.KernelCall(0, arguments))], None)
            ],
            operators=[schema.Operator(name, overload)],
            delegates=[],
            non_const_buffer_sizes=[0, -(-self.size // _ALIGN) * _ALIGN],
        )
        program = schema.Program(
            version=0,
            execution_plan=[plan],
            constant_buffer=[schema.Buffer(b"")],
            backend_delegate_data=[],
            segments=[],
            constant_segment=schema.SubsegmentOffsets(0, []),
        )
        guard = numpy.full(_GUARD, _GUARD_BYTE, numpy.uint8)
        guard_input = ArrayInput("uint8", (_GUARD,), guard.tobytes())
        return OneOp(
            bytes(serialize_pte_binary(PTEFile(program))),
            tuple(_array_input(tensor) for tensor in given.values()) + (guard_input,) * len(guards),
            tuple(given[index].array for index in unchanged),
            (guard,) * len(guards),
        )

    def _written(self) -> tuple[int, ...]:
        writes = [v for v in self.instruction.writes if self.method.values[v].kind == "tensor"]
        if len(writes) != len(self.record.outputs):
            raise NotImplementedError("not all of its outputs were recorded")
        return tuple(writes)

    def _collect(self, index: int, held: Any, given: dict[int, TensorData]) -> None:
        """The tensors an argument gives, by value index."""
        value = self.method.values[index]
        if isinstance(held, TensorData):
            given.setdefault(index, held)
        elif value.kind in ("tensor_list", "optional_tensor_list") and isinstance(held, list):
            for item, tensor in zip(value.items, held, strict=True):
                if item >= 0 and isinstance(tensor, TensorData):
                    given.setdefault(item, tensor)

    def _argument(self, index: int, held: Any) -> int:
        """The place of an argument among the new values; made if needed."""
        if index in self.places:
            return self.places[index]
        from executorch.exir import schema

        value = self.method.values[index]
        made: Any
        if value.kind == "none" or (value.kind == "tensor" and held is None):
            made = schema.Null()
        elif isinstance(held, bool):
            made = schema.Bool(held)
        elif isinstance(held, int):
            made = schema.Int(held)
        elif isinstance(held, float):
            made = schema.Double(held)
        elif isinstance(held, str):
            made = schema.String(held)
        elif value.kind == "int_list":
            made = schema.IntList([self._add(schema.Int(int(item))) for item in held])
        elif value.kind == "double_list":
            made = schema.DoubleList([float(item) for item in value.items])
        elif value.kind == "bool_list":
            made = schema.BoolList([bool(item) for item in value.items])
        elif value.kind in ("tensor_list", "optional_tensor_list"):
            items = [self.places[item] if item >= 0 else -1 for item in value.items]
            plain = value.kind == "tensor_list"
            made = schema.TensorList(items) if plain else schema.OptionalTensorList(items)
        else:
            raise NotImplementedError(f"an argument is of kind {value.kind}")
        self.places[index] = self._add(made)
        return self.places[index]

    def _add(self, value: Any) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def _tensor(self, data: TensorData) -> int:
        import numpy

        size = 2 if data.dtype == "bfloat16" else numpy.dtype(data.array.dtype).itemsize
        order = list(data.dim_order) or list(range(data.array.ndim))
        return self._place(data.dtype, list(data.array.shape), order, data.array.size * size)

    def _guard(self) -> int:
        return self._place("uint8", [_GUARD], [0], _GUARD)

    def _place(self, dtype: str, shape: Sequence[int], order: Sequence[int], size: int) -> int:
        from executorch.exir import schema
        from executorch.exir.scalar_type import ScalarType

        numbers = {"uint8": "BYTE", "int8": "CHAR", "int16": "SHORT", "int32": "INT"}
        numbers |= {"int64": "LONG", "float16": "HALF", "float32": "FLOAT", "float64": "DOUBLE"}
        numbers |= {"bool": "BOOL", "bfloat16": "BFLOAT16"}
        if dtype not in numbers:
            raise NotImplementedError(f"a tensor is of dtype {dtype}")
        offset = self.size
        self.size += size
        return self._add(
            schema.Tensor(
                scalar_type=ScalarType[numbers[dtype]],
                storage_offset=0,
                sizes=list(shape),
                dim_order=list(order),
                requires_grad=False,
                layout=0,
                data_buffer_idx=0,
                allocation_info=schema.AllocationDetails(1, offset & 0xFFFFFFFF, offset >> 32),
                shape_dynamism=schema.TensorShapeDynamism.STATIC,
            )
        )


def _array_input(tensor: TensorData) -> ArrayInput:
    """The tensor's bytes in its own order of dims."""
    import numpy

    order = tensor.dim_order or tuple(range(tensor.array.ndim))
    array = numpy.ascontiguousarray(numpy.transpose(tensor.array, order))
    if tensor.dtype == "bfloat16":
        array = (array.view(numpy.uint32) >> 16).astype(numpy.uint16)
    return ArrayInput(tensor.dtype, tuple(tensor.array.shape), array.tobytes(), tuple(order))
