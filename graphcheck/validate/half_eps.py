"""The eps of adam and adamw beside float16 parameters, in whose type it may be nothing."""

from __future__ import annotations

import math

from graphcheck.options import ValidateOptions
from graphcheck.workload.types import Workload

__all__ = ["half_eps"]

_VANISHES = 2.0**-25
"""What float16 rounds to 0: half of its smallest number."""


def half_eps(workload: Workload, options: ValidateOptions) -> tuple[str, ...]:
    """A note where the optimizer's eps rounds to 0 in the type of parameters that it trains.

    The second moment is rounded to that type as well, so that for a small gradient both are 0.
    """
    import torch

    if options.optimizer == "sgd" or not 0 < options.eps <= _VANISHES:
        return ()
    names = [
        name.removeprefix(workload.prefix)
        for name, parameter in workload.module.named_parameters()
        if parameter.requires_grad and parameter.dtype == torch.float16
    ]
    if not names:
        return ()
    least = math.sqrt(_VANISHES / (1 - options.betas[1]))
    which = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"eps {options.eps:g} is 0 in float16, the type of {which}: {options.optimizer} divides by "
        f"0 where a gradient is below {least:.2g}, which makes the weight NaN or infinite, in "
        "eager PyTorch as in the runtime; use --eps 1e-4, or parameters in float32",
    )
