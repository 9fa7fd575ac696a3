"""What a program lacks of its model, for a verdict that no instruction is to blame for."""

from __future__ import annotations

from graphcheck.errors import ModelError
from graphcheck.graph.precheck import lost_in_export
from graphcheck.graph.provenance import Provenance
from graphcheck.graph.recurrent_dropout import lost_dropout
from graphcheck.runtime.lower import Lowered
from graphcheck.validate.reason import locate, place
from graphcheck.workload.types import Workload

__all__ = ["left_out"]


def left_out(workload: Workload, lowered: Lowered) -> list[ModelError]:
    """What export or the joint graph has lost of the model. May run the model in eager mode."""
    problems: list[ModelError] = list(lost_in_export(workload))
    if lowered.traced is None:
        return problems
    exported = lowered.traced.exported
    provenance = Provenance(exported, workload.prefix, workload.root_type)
    for lost in lost_dropout(exported, lowered.joint, provenance):
        where = locate(lost.source.module, place(lost.source))
        problems.append(
            ModelError(
                f"{lost.op}{where} loses its dropout of {lost.p:g} between the layers in torch's "
                "own decomposition (GC303), which graphcheck export mends"
            )
        )
    return problems
