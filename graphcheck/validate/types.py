"""The answer of `validate`: does the runtime train as eager does, and if not, where first."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphcheck.validate.device_result import DeviceResult
from graphcheck.validate.ties.types import TiesReport

__all__ = ["Divergence", "Shadow", "Stage", "StaleOutput", "Verdict", "WrongInstruction"]


@dataclass(frozen=True)
class Stage:
    """One rung of the ladder: `outcome` is pass, fail or not run; `detail` says why."""

    name: str
    outcome: str
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class StaleOutput:
    """An instruction whose output depends on what its memory held before.

    `op` is the registry name, `module` the user's module path; `caused_by` is the index of an
    earlier flagged instruction that feeds it, None for a root cause.
    """

    instruction: int
    op: str
    module: str = ""
    source: str = ""
    caused_by: int | None = None


@dataclass(frozen=True)
class Divergence:
    """The first step at which runtime and eager differ, and in what.

    `quantity` is "loss" or the parameter's name; `error` is relative to the largest entry.
    """

    step: int
    quantity: str
    runtime: float
    eager: float
    error: float
    tolerance: float


@dataclass(frozen=True)
class WrongInstruction:
    """An instruction that computes something else than eager PyTorch from the same inputs.

    Found by shadow execution of step `step`. `error` and `tolerance` are relative to the largest
    entry of the output and belong to the worst entry: `index` of output number `output`, where
    the runtime has `observed` and eager `expected`. `count` of its `size` entries are wrong.
    `detail` says more where an error alone says little (a missing scale). `reproducer` is the
    folder of the instruction as a program of its own, if there is one.
    """

    instruction: int
    op: str
    module: str = ""
    source: str = ""
    step: int = 0
    error: float = 0.0
    tolerance: float = 0.0
    detail: str = ""
    output: int = 0
    index: tuple[int, ...] = ()
    observed: float = 0.0
    expected: float = 0.0
    count: int = 0
    size: int = 0
    reproducer: str = ""


@dataclass
class Shadow:
    """Result of shadow execution: `wrong` in order of execution, `checked` a count.

    `unchecked` are instruction, op and reason. `ties` are instruction, op and how many ties it
    decides otherwise than eager, in a way that is right as well. `coarse` are instruction and op of
    float64 results that have float32's digits, in a model that trains in a shorter type.
    """

    wrong: list[WrongInstruction] = field(default_factory=list)
    checked: int = 0
    unchecked: list[tuple[int, str, str]] = field(default_factory=list)
    ties: list[tuple[int, str, int]] = field(default_factory=list)
    coarse: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """`verdict` is match, drift, diverged or not run; `reason` explains it in a sentence."""

    target: str
    verdict: str
    reason: str
    stages: tuple[Stage, ...] = ()
    steps: int = 0
    losses: tuple[float, ...] = ()
    eager_losses: tuple[float, ...] = ()
    first_free: Divergence | None = None
    """First divergence when both train freely from the same weights."""
    first_locked: Divergence | None = None
    """First divergence with the eager weights reset to the runtime's before each step."""
    worst_gradient_errors: dict[str, float] = field(default_factory=dict)
    """Worst relative error over the steps, locked, by parameter name."""
    gradient_tolerances: dict[str, float] = field(default_factory=dict)
    """What rounding alone can change of each, relative likewise, at the step where it is least."""
    stale: tuple[StaleOutput, ...] = ()
    stale_checked: bool = False
    notes: tuple[str, ...] = ()
    overhead: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    optimizer: str = ""
    first_wrong: WrongInstruction | None = None
    """The first instruction, in order of execution, that is wrong given its own inputs."""
    shadow_checked: bool = False
    wrong: tuple[WrongInstruction, ...] = ()
    """All instructions that shadow execution found wrong, in order of execution."""
    reproducer: bool = False
    """Whether this is about one instruction, run again from a reproducer."""
    ties: TiesReport | None = None
    """Ties of max pools, where they were asked for."""
    shadow_instructions: int = 0
    """How many instructions shadow execution checked, counted once per step."""
    free_compared: bool = True
    """False where the free-running curves cannot be compared: the model draws random numbers."""
    devices: tuple[DeviceResult, ...] = ()
    """Every device that was asked for, in that order; the rest of the verdict is of the worst."""
    required: bool = False
    """Whether a device that could not be had is a failure."""
    next_command: str = ""
    """What to call next on a live module; of a target by name the report formats tell it."""
    schema_version: str = "1"
