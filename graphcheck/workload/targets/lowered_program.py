"""`model.pte`: a lowered program, which can be read but not traced."""

from __future__ import annotations

from graphcheck.errors import ModelError
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.targets.interface import Loaded, TargetKind

__all__ = ["KIND"]


def _matches(target: str) -> bool:
    return target.lower().endswith(".pte")


def _load(request: WorkloadRequest) -> Loaded:
    raise ModelError(
        f"{request.target} is a lowered program, of which no model can be made again.",
        "`graphcheck check`, `oplist` and `memory` read it; for the rest give the model's source.",
    )


KIND = TargetKind(name="lowered", form="`model.pte`", matches=_matches, load=_load)
