"""Random numbers of Python's or NumPy's generators, which become constants of the joint graph.

`torch.export` records draws of torch's own generator alone. A layer that is left out when
`random.random() < p` is left out for ever, or never. Measured here, in eager mode: gradients of
passes that differ in the state of those two generators and in nothing else.
"""

from __future__ import annotations

import re
from typing import Any

from graphcheck.graph.gradient_hooks import copied_with_hooks
from graphcheck.graph.own_sources import own_sources
from graphcheck.graph.wrong_gradients import (
    WrongGradients,
    gradients_of,
    wrong_loss_or_gradients,
)
from graphcheck.workload.types import Workload

__all__ = ["frozen_draws"]

_SEEDS = 6
_WORDS = re.compile(
    r"(?<![\w.])(?:np\.|numpy\.)?random\.\w|from (?:numpy\.)?random import|default_rng|RandomState"
)


def frozen_draws(workload: Workload) -> WrongGradients | None:
    """How far loss and gradients move with those generators; None when they do not.

    Costs nothing unless a source file of the model speaks of them; then six forward and backward
    passes on copies, so a draw that rarely matters may be missed. None, too, when the model does
    not run, which other checks report.
    """
    if not any(map(_WORDS.search, own_sources(workload.module))):
        return None
    first: tuple[Any, dict[str, Any]] | None = None
    try:
        for seed in range(_SEEDS):
            module = copied_with_hooks(workload.module)
            found = gradients_of(workload, module, draws=seed)
            first = first or found
            wrong = wrong_loss_or_gradients(found, first, workload.prefix)
            if wrong is not None:
                return wrong
    except Exception:
        return None
    return None
