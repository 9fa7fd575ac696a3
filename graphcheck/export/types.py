"""What `export` is asked for, and what it hands on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graphcheck.options import ValidateOptions
from graphcheck.report.types import NotChecked
from graphcheck.rules.types import Finding
from graphcheck.validate.types import Verdict

__all__ = [
    "Card",
    "ExportOptions",
    "ExportResult",
    "Inference",
    "InputFact",
    "RandomInput",
    "RewriteRecord",
    "SwapRecord",
    "TraceStep",
]


@dataclass(frozen=True)
class ExportOptions(ValidateOptions):
    """How to export one target.

    `output` is the path of the program. `freeze` are patterns of parameter names, `swaps` names of
    module swaps, `rewrite` and `no_rewrite` names of rewrites or ops to use always or never.
    `prove` asks for the parity check on this machine; `reference_steps` is the length of the
    trace in the card. `deterministic_dropout` makes the random draws inputs of the program.
    `external_weights` keeps the weights in a file beside it; `with_inference` adds a method that
    predicts. `prefer` is `rewrite` or `patch`: what to do about an op that a kernel library runs.
    """

    output: str = ""
    freeze: tuple[str, ...] = ()
    swaps: tuple[str, ...] = ()
    rewrite: tuple[str, ...] = ()
    no_rewrite: tuple[str, ...] = ()
    prove: bool = True
    reference_steps: int = 5
    deterministic_dropout: bool = False
    external_weights: bool = False
    with_inference: bool = False
    prefer: str = "rewrite"


@dataclass(frozen=True)
class RewriteRecord:
    """A rewrite that was applied: to how many nodes of which modules, and why.

    `reason` is the code and message of the finding that asked for it; `growth` the bytes of
    intermediate tensors that were not there before (an upper bound: they die early).
    """

    name: str
    op: str
    count: int
    modules: tuple[str, ...]
    reason: str
    formula: str
    exact: bool
    growth: int


@dataclass(frozen=True)
class SwapRecord:
    """A module swap that was made before the export: `change` is exact, numerics or function.

    `what` says what was done, once for each kind of module. Parity is with the swapped module.
    """

    name: str
    change: str
    modules: tuple[str, ...]
    what: tuple[str, ...]


@dataclass(frozen=True)
class InputFact:
    """An input of `forward`: name in the graph, dtype, shape (a symbolic size is a string)."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class RandomInput:
    """A random draw that is an input of `forward`, with its name, dtype and shape there.

    `distribution` is uniform (in [0, 1)), normal (standard), integers (`low` <= n < `high`) or
    permutation (of 0 ... `high` - 1). `module` draws it in eager: dropout with probability p keeps
    an entry where the uniform number is below 1 - p.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    distribution: str
    module: str
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class Inference:
    """The method that predicts, in eval mode, with the weights that `forward` trains.

    Weights and running statistics lie in planned memory number `shared_memory` (of `shared_bytes`)
    of both methods: an app gives both the same buffer, and loads `forward` first, for that one
    brings the initial weights. `arena_bytes` are the method's own beside. The errors are relative
    to the largest entry of the prediction, before training and after `steps` steps; `moved` is how
    far these steps moved it. None where nothing was run.
    """

    method: str
    inputs: tuple[InputFact, ...]
    outputs: int
    shared_memory: int
    shared_bytes: int
    arena_bytes: int
    rewrites: tuple[RewriteRecord, ...] = ()
    steps: int = 0
    error_before: float | None = None
    error_after: float | None = None
    moved: float | None = None


@dataclass(frozen=True)
class TraceStep:
    """One step of the reference trace: the loss and the L2 norm of each gradient."""

    loss: float
    gradient_norms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Card:
    """The JSON card beside a program: what it is, what was changed, what it needs, what it does.

    `kernels` are the registry names that the runtime must provide; `arena_bytes` the planned
    memory, weights included. `inputs` give name, dtype and shape in the order of `forward`;
    `parameters` the names in the training methods. `reference` was recorded in the runtime on
    this machine, so that a test on a device can assert on it. The example inputs it took are in
    `reference_inputs_file`, one after the other, raw, little-endian and row-major, in the order,
    dtype and shape of `inputs`; `reference_inputs` are their sha256. With `random_inputs` the file
    holds `reference_input_sets` such sets, one after the other, and step k takes set k. `weights`
    is the file of weights beside the program, if they are not inside. `patched` are the ops that
    are right on a runtime with a kernel library only, each as `library: op (module)`.
    """

    program: str
    program_bytes: int
    program_sha256: str
    target: str
    versions: dict[str, str]
    opset: str
    kernels: tuple[str, ...]
    arena_bytes: int
    inputs: tuple[InputFact, ...]
    parameters: tuple[str, ...]
    frozen: tuple[str, ...] = ()
    mutated_buffers: tuple[str, ...] = ()
    rewrites: tuple[RewriteRecord, ...] = ()
    swaps: tuple[SwapRecord, ...] = ()
    corrections: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    verdict: str = "not run"
    verdict_reason: str = ""
    worst_gradient_errors: dict[str, float] = field(default_factory=dict)
    optimizer: str = ""
    learning_rate: float = 0.0
    optimizer_settings: dict[str, Any] = field(default_factory=dict)
    """What the optimizer was given beside the learning rate, by the names of torch.optim."""
    reference_inputs_file: str = ""
    reference_inputs: tuple[str, ...] = ()
    reference: tuple[TraceStep, ...] = ()
    random_inputs: tuple[RandomInput, ...] = ()
    inference: Inference | None = None
    patched: tuple[str, ...] = ()
    weights: str = ""
    weights_bytes: int = 0
    weights_sha256: str = ""
    reference_input_sets: int = 1
    schema_version: str = "1"


@dataclass(frozen=True)
class ExportResult:
    """The end of an export.

    `written` are the paths of the files, () when nothing was written; then `failure` says why in a
    sentence and `findings` are what stands in the way.
    """

    target: str
    written: tuple[str, ...] = ()
    failure: str = ""
    hint: str = ""
    failure_code: str = ""
    findings: tuple[Finding, ...] = ()
    card: Card | None = None
    verdict: Verdict | None = None
