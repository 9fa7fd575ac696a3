"""The facts of a program file: sizes, methods, operators, delegates, and how it is trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from graphcheck.artefacts.calls import is_metadata
from graphcheck.errors import ModelError
from graphcheck.graph.artefact import Artefact, DelegateFact, MethodFact, TrainingFact
from graphcheck.graph.pte_types import PteMethod, PteProgram, PteValue
from graphcheck.rewrite.metadata import shift_of

__all__ = ["describe_value", "facts_of"]


def facts_of(program: PteProgram) -> Artefact:
    """What the file says; methods that only hold training metadata are part of what they tell."""
    return Artefact(
        format="ExecuTorch program (ET12)",
        size=program.size,
        program_size=program.program_size,
        constant_size=program.constant_size,
        mutable_size=program.mutable_size,
        methods=tuple(
            _method(program, method) for method in program.methods if not is_metadata(method)
        ),
    )


def describe_value(value: PteValue) -> str:
    """`float32[<=16,3]`, or the kind of what is no tensor."""
    if value.kind != "tensor":
        return value.kind
    bound = "" if value.dynamism == "static" else "<="
    return f"{value.dtype}[{','.join(f'{bound}{size}' for size in value.shape)}]"


def _method(program: PteProgram, method: PteMethod) -> MethodFact:
    external = [value for value in method.values if value.external]
    return MethodFact(
        name=method.name,
        instructions=len(method.instructions),
        operators=dict(
            sorted(Counter(i.op for i in method.instructions if i.kind == "kernel").items())
        ),
        delegates=_delegates(method),
        inputs=tuple(describe_value(method.values[index]) for index in method.inputs),
        outputs=tuple(describe_value(method.values[index]) for index in method.outputs),
        arena=method.buffer_sizes[1:],
        state=_bytes(v for v in method.values if v.initialized),
        constants=_bytes(v for v in method.values if v.constant and not v.external),
        external=sum(value.nbytes for value in external),
        external_names=tuple(dict.fromkeys(value.name for value in external if value.name)),
        training=_training(program, method),
    )


def _delegates(method: PteMethod) -> tuple[DelegateFact, ...]:
    calls = Counter(i.delegate for i in method.instructions if i.kind == "delegate")
    return tuple(
        DelegateFact(name or "a backend without name", size, calls[number])
        for number, (name, size) in enumerate(
            zip(method.delegates, method.delegate_sizes, strict=True)
        )
    )


def _bytes(values: Iterable[PteValue]) -> int:
    """Tensors that are the same piece of data count once."""
    return sum({value.data: value.nbytes for value in values}.values())


def _training(program: PteProgram, method: PteMethod) -> TrainingFact | None:
    stated = program.training.get(method.name)
    if stated is None:
        return None
    try:
        shift, fault = shift_of(program, method.name), ""
    except ModelError as error:
        shift, fault = 0, error.message
    return TrainingFact(stated.gradients_index, stated.parameters_index, stated.names, shift, fault)
