"""What a program file says of itself, in numbers and names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Artefact", "DelegateFact", "MethodFact", "TrainingFact"]


@dataclass(frozen=True)
class DelegateFact:
    """A part of a method that a backend runs: its bytes in the file, and how often it is called."""

    backend: str
    size: int
    calls: int


@dataclass(frozen=True)
class TrainingFact:
    """How a device app finds gradients and parameters among the outputs of a method.

    `gradients_index` and `parameters_index` are what the file says, `shift` by how many outputs
    both are too large (0: right), `fault` why that cannot be told. `parameters` are the names of
    those with a gradient, in order.
    """

    gradients_index: int
    parameters_index: int
    parameters: tuple[str, ...]
    shift: int = 0
    fault: str = ""


@dataclass(frozen=True)
class MethodFact:
    """A method: sizes in bytes, `inputs` and `outputs` as `float32[2,3]`, operators with calls.

    `arena` is planned memory by memory id, the first entry being id 1. `state` is what of it is
    filled from the file (weights and buffers), `constants` what stays in the file, `external` what
    comes from another file (`.ptd`), named in `external_names`.
    """

    name: str
    instructions: int
    operators: Mapping[str, int] = field(default_factory=dict)
    delegates: tuple[DelegateFact, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    arena: tuple[int, ...] = ()
    state: int = 0
    constants: int = 0
    external: int = 0
    external_names: tuple[str, ...] = ()
    training: TrainingFact | None = None


@dataclass(frozen=True)
class Artefact:
    """A program file; sizes in bytes."""

    format: str
    size: int
    program_size: int
    constant_size: int
    mutable_size: int
    methods: tuple[MethodFact, ...] = ()
