"""BatchNorm with fixed statistics; scale and shift train."""

from __future__ import annotations

from typing import Any

from graphcheck.swap.convert import as_layer
from graphcheck.swap.interface import Made, Swap, Unfit
from graphcheck.swap.source import renamed

__all__ = ["SWAP"]

_LAYERS = {f"BatchNorm{rank}d": f"FrozenBatchNorm{rank}d" for rank in (1, 2, 3)}
_DONE = "statistics fixed, scale and shift kept"


def _freeze(module: Any, argument: str) -> Made:
    if module.running_mean is None:
        raise Unfit("it keeps no running statistics (track_running_stats=False)")
    made = as_layer(_LAYERS, _DONE)(module, argument)
    if not module.running_mean.any() and (module.running_var == 1).all():
        return Made(
            made.module, f"{_DONE}; they are the initial ones: load trained weights before this"
        )
    return made


SWAP = Swap(name="frozen-batch-norm", module=_freeze, source=renamed(_LAYERS))
