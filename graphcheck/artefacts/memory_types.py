"""What `graphcheck memory` tells; all sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass

from graphcheck.report.types import NotChecked

__all__ = ["BigTensor", "MemoryReport", "MethodMemory", "RewriteMemory"]


@dataclass(frozen=True)
class BigTensor:
    """A planned tensor: what it is (`float32[2,3]`), who makes it, how long it lives.

    `op` is the kernel that makes it, or input, weight, buffer; `first` and `last` are
    instructions. `kind` is one of input, weight, buffer, gradient, activation.
    """

    tensor: str
    size: int
    op: str
    module: str
    kind: str
    first: int
    last: int


@dataclass(frozen=True)
class MethodMemory:
    """The memory of one method.

    `arena` is planned memory as the file has it, `constants` what is read from the file beside.
    `curve` is what is in use at each instruction, views counted once; `peak` its largest value, at
    instruction `peak_at`, which calls `peak_op` for `peak_module`. Weights and buffers are there
    all the time, inputs until they are used up; `gradients` is what all of them take together;
    `at_peak` says what the peak is made of, by kind. `loss_at` is the instruction that makes the
    loss, -1 for none.
    """

    method: str
    arena: int
    constants: int
    external: int
    weights: int
    buffers: int
    inputs: int
    gradients: int
    peak: int
    peak_at: int
    peak_op: str
    peak_module: str
    loss_at: int
    instructions: int
    at_peak: dict[str, int]
    curve: tuple[int, ...]
    largest: tuple[BigTensor, ...]


@dataclass(frozen=True)
class RewriteMemory:
    """A rewrite: how many instructions it stands for, the bytes that they write in all, and by how
    much the peak would be lower if what only they read took no memory."""

    name: str
    instructions: int
    written: int
    adds: int


@dataclass(frozen=True)
class MemoryReport:
    """The memory of a program, and of what it is compared with.

    `inference` is the same model when it predicts, `without_rewrites` the arena of the program
    that ExecuTorch makes of the model as it is. `others` are further methods of a file.
    """

    target: str
    training: bool
    program: MethodMemory
    others: tuple[MethodMemory, ...] = ()
    inference: MethodMemory | None = None
    without_rewrites: int | None = None
    rewrites: tuple[RewriteMemory, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    guesses: tuple[str, ...] = ()
    schema_version: str = "1"
