"""What a user can ask of `check` and `validate`: plain values that travel to a child process."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MOST_MEGABYTES", "MOST_NUMBER", "MOST_SECONDS", "CheckOptions", "ValidateOptions"]

MOST_NUMBER = 2**31 - 1
"""The most steps, classes or groups: what a signed number of the runner's files holds."""
MOST_SECONDS = 2e6
"""The longest time limit, 23 days: `poll` counts its milliseconds in 31 bits."""
MOST_MEGABYTES = 2**40
"""The highest memory limit in MiB: what the kernel's limit in bytes holds."""


@dataclass(frozen=True)
class CheckOptions:
    """How to load and check one target.

    `inputs` are specifications such as `float32[2,3,64,64]` or `int64[2]<10`; () takes the model
    file's own example inputs. `loss` names a loss (`cross_entropy`), None takes the model file's.
    `opset` is the name or the path of an operator set, None the installed runtime's.
    `kernel_libraries` are paths of shared libraries that register kernels, `stamps` those of stamps
    of patched source trees. `timeout` is in
    seconds for the whole work in the child process, `memory_limit` in MiB (None: no limit).
    `strict` asks for strict export instead of non-strict first. `select`, `ignore` and
    `per_module_ignores` are code prefixes (`GC3`), the last by module path pattern (`pool*`).
    """

    target: str
    inputs: tuple[str, ...] = ()
    loss: str | None = None
    num_classes: int | None = None
    dynamic_batch: bool = False
    opset: str | None = None
    kernel_libraries: tuple[str, ...] = ()
    timeout: float = 600.0
    memory_limit: int | None = None
    strict: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_module_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    stamps: tuple[str, ...] = ()


@dataclass(frozen=True)
class ValidateOptions(CheckOptions):
    """How to train one target in the runtime and in eager, and compare.

    `steps` counts training steps. `on` names devices of the runtime room; `require` makes one that
    cannot be had a failure, `resume` takes the finished results of an earlier run. `optimizer` is
    `sgd`, `adam` or `adamw`; `momentum` is of sgd, `betas` and `eps` of the other two, and a
    `weight_decay` of None is torch.optim's default (0.01 for adamw). `data` names the batches to
    train on (`FILE.npz`, `module:loader`) in place of the example inputs. `runner` is a native
    runner that was built for a device, `cores` are those that it is pinned to there.

    `shadow` runs every instruction again in eager, at the steps `shadow_steps` (by default the
    first and the last); `shadow_ops` and `shadow_modules` are glob patterns that choose among
    them, `reproducers` is a folder for those that are wrong. `ties` measures the ties of pools.
    """

    steps: int = 20
    learning_rate: float = 0.05
    on: tuple[str, ...] = ("host",)
    optimizer: str = "sgd"
    require: bool = False
    resume: bool = False
    momentum: float = 0.0
    weight_decay: float | None = None
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    data: str = ""
    runner: str = ""
    cores: str = ""
    shadow: bool = False
    shadow_ops: tuple[str, ...] = ()
    shadow_modules: tuple[str, ...] = ()
    shadow_steps: tuple[int, ...] = ()
    reproducers: str = ""
    ties: bool = False
