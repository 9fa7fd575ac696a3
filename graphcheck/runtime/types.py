"""What goes into a run of a program and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = [
    "EVERY_STEP",
    "ArrayInput",
    "Evaluation",
    "InstructionDump",
    "InstructionOutput",
    "OptimizerSettings",
    "RunFailure",
    "StepRecord",
    "TensorData",
    "Trace",
    "TrainRequest",
    "UncheckedInstruction",
]


@dataclass(frozen=True)
class ArrayInput:
    """One input tensor: raw little-endian bytes in contiguous order (or in `dim_order`).

    `dtype` is torch's short name (`float32`, `int64`, `bfloat16`, `bool`).
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    dim_order: tuple[int, ...] = ()


@dataclass(frozen=True)
class OptimizerSettings:
    """What the optimizers `sgd`, `adam` and `adamw` take beside the learning rate.

    `momentum` is sgd's, `betas` and `eps` are those of adam and adamw, `weight_decay` of all: added
    to the gradient by sgd and adam, taken off the weights by adamw. Formulas are torch.optim's.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8


EVERY_STEP = -2
"""Dump the instructions of every step."""


@dataclass(frozen=True)
class TrainRequest:
    """Train `program` for `steps` steps of SGD (or what `optimizer` says) in the runtime.

    `batches` are input sets, used in turn: one array per tensor input of `method`, in order.
    `fill` is what the arena holds before the first step (zero, nan, junk; weights and buffers are
    loaded after it). `detect_stale` looks for stale outputs on the state of step 0. `record` adds
    gradients and parameters of every step to the trace.
    `kernel_libraries` are loaded before the program. `timeout` in seconds is for the whole run.
    `optimizer` "none" runs a method that needs no training metadata; all its outputs are recorded.
    `dump_step` is a step whose instructions are dumped, inputs and outputs (`EVERY_STEP` for all
    steps), `dump_steps` are more of them, `dump_only` which instructions (all by default). The dump
    is of a pass of its own from the same state: it draws its own random numbers.

    `weights` is the file of weights beside the program, if they are not inside. `evaluation` names
    a method that shares the weights with `method`; it runs on each of `evaluation_batches` after as
    many steps as `evaluate_after` says (0: before the first).

    `keep` keeps the result of a run that came to its end, `resume` takes one that was kept of the
    same program, inputs, kernels and device.
    """

    program: Path
    batches: tuple[tuple[ArrayInput, ...], ...]
    steps: int
    learning_rate: float = 0.05
    optimizer: str = "sgd"
    fill: str = "zero"
    detect_stale: bool = False
    record: bool = True
    kernel_libraries: tuple[Path, ...] = ()
    timeout: float = 300.0
    method: str = "forward"
    dump_step: int | None = None
    dump_only: tuple[int, ...] = ()
    dump_steps: tuple[int, ...] = ()
    weights: Path | None = None
    evaluation: str = ""
    evaluate_after: tuple[int, ...] = ()
    evaluation_batches: tuple[tuple[ArrayInput, ...], ...] = ()
    settings: OptimizerSettings = OptimizerSettings()
    keep: bool = False
    resume: bool = False
    checked: bool = True


@dataclass(frozen=True)
class Evaluation:
    """What the evaluated method gave on batch `batch` after `steps` training steps."""

    steps: int
    batch: int
    outputs: tuple[Any, ...]


@dataclass(frozen=True)
class StepRecord:
    """One training step: `loss`, gradients and the parameters *before* the update, by name.

    Arrays are numpy arrays in the tensor's own dtype (bfloat16 as float32). Names are those of
    the program's own training metadata, as an app on a device would see them. `seconds` is the
    time of `execute` alone, `overhead_seconds` that of everything else in the step (inputs,
    recording, update). `outputs` are the user outputs of the step, the loss first.
    """

    loss: float
    gradients: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    outputs: tuple[Any, ...] = ()
    overhead_seconds: float = 0.0


@dataclass(frozen=True)
class InstructionOutput:
    """An instruction the stale-output detector flagged.

    Without `inputs_from` it is a root cause: on equal inputs its result depends on what its output
    memory held before. With them it is sound itself, and a difference of these flagged
    instructions reaches it.
    """

    instruction: int
    op: str
    inputs_from: tuple[int, ...] = ()


@dataclass(frozen=True)
class UncheckedInstruction:
    """An instruction the stale-output detector could not judge, and why."""

    instruction: int
    op: str
    reason: str


@dataclass(frozen=True)
class TensorData:
    """A tensor of a dump: `array` is a numpy array of its logical shape (bfloat16 as float32)."""

    dtype: str
    array: Any
    dim_order: tuple[int, ...] = ()


@dataclass(frozen=True)
class InstructionDump:
    """What one instruction was given and gave, in the runtime.

    `arguments` are in the order of the registry's schema with the out arguments and the returned
    value at the end: numbers, bools, strings, lists, `TensorData` (or lists of them, None for a
    hole) as they were before the call; None for a tensor that is only written. `outputs` are
    those of `PteInstruction.writes` after the call. `spoiled` are the positions of arguments that
    it wrote into though they are inputs, `beside` whether it wrote beside its outputs.
    """

    instruction: int
    op: str
    arguments: tuple[Any, ...]
    outputs: tuple[TensorData, ...]
    step: int = 0
    spoiled: tuple[int, ...] = ()
    beside: bool = False


@dataclass(frozen=True)
class RunFailure:
    """Why a run ended early: `kind` is refused, crash, hang, load, metadata, space or device.

    `stage` is where (load, method, step N); `code` ExecuTorch's error number if there is one;
    `message` a sentence; `op`/`instruction` what ran, if known; `log` the runtime's own words.
    """

    kind: str
    stage: str
    message: str
    code: int | None = None
    op: str = ""
    instruction: int | None = None
    log: str = ""


@dataclass(frozen=True)
class Trace:
    """What a run gave: its steps up to `failure`, if any."""

    steps: tuple[StepRecord, ...] = ()
    failure: RunFailure | None = None
    stale: tuple[InstructionOutput, ...] = ()
    stale_checked: bool = False
    instructions: int = 0
    arena_bytes: int = 0
    seconds: float = 0.0
    stale_unchecked: tuple[UncheckedInstruction, ...] = ()
    stale_note: str = ""
    """Why the detector gave no answer, if it was asked and did not."""
    dump: tuple[InstructionDump, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    start_bytes: int = 0
    """Memory of the runner before it loads the program, with its libraries."""
    peak_bytes: int = 0
    """The most it held until its end."""
    resumed: bool = False
    """Whether it is the kept result of an earlier run."""
