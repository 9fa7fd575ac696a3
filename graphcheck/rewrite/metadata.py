"""Corrects the training metadata of a program that mutates buffers.

A training program says where in its outputs gradients and parameters start. ExecuTorch counts these
places over the outputs of the exported program, which include one for each mutated buffer; the
emitted method has no such outputs, so both numbers come out too large, and every name gets the
gradient of a neighbour (`exir/emit/_emit_program.py`, 1.5.1). Outputs are user outputs, gradients,
parameters in this order, so the right numbers follow from the count of outputs and of names. The
numbers are changed in place; nothing else in the file moves.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from graphcheck.errors import ModelError
from graphcheck.graph.flatbuffer import CorruptBufferError, Reader
from graphcheck.graph.pte import PteMethod, PteProgram, TrainingMetadata, read_pte
from graphcheck.spill import Buffer, edited

__all__ = ["correct", "shift_of"]

_GRADIENTS = "__et_training_gradients_index_"
_PARAMETERS = "__et_training_parameters_index_"
_INT = 2
"""The type of an integer in the union of values."""


class _Starts(NamedTuple):
    gradients: int
    parameters: int


def correct(program: Buffer) -> tuple[Buffer, tuple[str, ...]]:
    """The program with right training metadata, and a sentence for each method corrected.

    A program whose metadata is right is returned as it is. Raises ModelError when the outputs of a
    method cannot be paired with its names, or the file is no ExecuTorch program.
    """
    parsed = read_pte(program)
    wanted: dict[str, int] = {}
    told = []
    for name, stated in parsed.training.items():
        right = _right(parsed, stated)
        if right == (stated.gradients_index, stated.parameters_index):
            continue
        wanted[_GRADIENTS + name] = right.gradients
        wanted[_PARAMETERS + name] = right.parameters
        told.append(
            f"training metadata of {name}: gradients start at output {right.gradients}, not "
            f"{stated.gradients_index}, parameters at {right.parameters}, not "
            f"{stated.parameters_index}: {_counted(stated.parameters_index - right.parameters)}"
        )
    if not wanted:
        return program, ()
    changes = {
        position: struct.pack("<q", wanted.pop(name))
        for name, position in _positions(program).items()
        if name in wanted
    }
    if wanted:
        raise ModelError(f"the program has no number to correct in {', '.join(sorted(wanted))}")
    return edited(program, changes), tuple(told)


def shift_of(program: PteProgram, method: str) -> int:
    """By how many outputs the training metadata of a method is too large, 0 when it is right.

    Raises ModelError when the outputs cannot be paired with the names, KeyError for a method
    without such metadata.
    """
    stated = program.training[method]
    return stated.parameters_index - _right(program, stated).parameters


def _counted(buffers: int) -> str:
    if buffers == 1:
        return "1 mutated buffer was counted as output"
    return f"{buffers} mutated buffers were counted as outputs"


def _right(program: PteProgram, stated: TrainingMetadata) -> _Starts:
    """Where gradients and parameters really start.

    Raises ModelError if what is stated is neither that nor too large by the same number.
    """
    method = program.method(stated.method)
    names, outputs = len(stated.names), len(method.outputs)
    right = _Starts(outputs - 2 * names, outputs - names)
    shift = stated.parameters_index - right.parameters
    if shift < 0 or right.gradients < 1 or stated.gradients_index - right.gradients != shift:
        raise ModelError(
            f"the training metadata of method {stated.method} does not fit its outputs: "
            f"{names} names, {outputs} outputs, gradients at {stated.gradients_index}, parameters "
            f"at {stated.parameters_index}",
            "the program may come from a newer ExecuTorch, or be damaged",
        )
    for index, name in enumerate(stated.names):
        gradient = _shape(method, right.gradients + index)
        parameter = _shape(method, right.parameters + index)
        if gradient != parameter:
            raise ModelError(
                f"the training metadata of method {stated.method} does not fit its outputs: the "
                f"gradient of {name} is {gradient}, the parameter {parameter}",
                "the program may come from a newer ExecuTorch, or be damaged",
            )
    return right


def _shape(method: PteMethod, output: int) -> str:
    value = method.values[method.outputs[output]]
    return f"{value.dtype}{list(value.shape)}" if value.kind == "tensor" else value.kind


def _positions(program: Buffer) -> dict[str, int]:
    """Where in the file the number that a metadata method returns is stored."""
    found = {}
    try:
        for plan in Reader.root(memoryview(program)).tables(1):
            name = plan.string(0)
            if not name.startswith((_GRADIENTS, _PARAMETERS)):
                continue
            outputs = plan.numbers(4, "int32")
            values = plan.tables(2)
            if len(outputs) != 1 or not 0 <= outputs[0] < len(values):
                continue
            value = values[outputs[0]]
            number = value.table(1)
            # A zero would not be stored; but no gradient starts at output 0, the loss.
            if value.scalar(0, "uint8") == _INT and number is not None and number.position(0):
                found[name] = number.position(0)
    except CorruptBufferError as error:
        raise ModelError(f"the program is damaged: {error}") from None
    return found
