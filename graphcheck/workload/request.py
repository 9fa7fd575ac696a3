"""What the user asked for, as plain data that can be sent to a child process."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WorkloadRequest"]


@dataclass(frozen=True)
class WorkloadRequest:
    """A target and how to feed it.

    `target` is `model.py`, `model.py:Net`, `pkg.mod:factory` or `torchvision:resnet18`.
    `inputs` are input specifications in the order of forward's arguments (`float32[2,3,64,64]`,
    `int64[2]<10`, `mask=bool[2,5]`); empty means what the target itself offers.
    `loss` names one of `graphcheck.workload.losses`; empty means what the target offers.
    `dynamic_batch` makes dim 0 of the inputs symbolic. `seed` fixes weights and made-up inputs.
    """

    target: str
    inputs: tuple[str, ...] = ()
    loss: str = ""
    dynamic_batch: bool = False
    num_classes: int | None = None
    seed: int = 0
