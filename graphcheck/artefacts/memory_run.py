"""`graphcheck memory`: from a program, or from the programs that a model is lowered to."""

from __future__ import annotations

from pathlib import Path

from graphcheck.artefacts.calls import is_metadata
from graphcheck.artefacts.lowering import LoweringReply
from graphcheck.artefacts.memory import memory_of, rewrite_memory
from graphcheck.artefacts.memory_types import MemoryReport
from graphcheck.errors import ModelError
from graphcheck.graph.pte import read_pte
from graphcheck.graph.pte_types import PteMethod, PteProgram
from graphcheck.report.types import NotChecked

__all__ = ["memory_of_file", "memory_of_lowered"]

_SCRATCH = NotChecked(
    "memory that kernels take for themselves", "it is not in the plan of the program"
)


def memory_of_file(path: str) -> MemoryReport:
    """The memory of a `.pte`. Raises ModelError for a file that is no program."""
    program = read_pte(path)
    main, *others = _methods(program, path)
    left_out = [_SCRATCH]
    for method in (main, *others):
        left_out += [
            NotChecked(f"memory of {name} in {method.name}", "a backend plans its own")
            for name in dict.fromkeys(method.delegates)
        ]
    if main.name in program.training and not others:
        left_out.append(
            NotChecked("inference of the same model", "the file has no method that predicts")
        )
    return MemoryReport(
        target=path,
        training=main.name in program.training,
        program=memory_of(program, main),
        others=tuple(memory_of(program, method) for method in others),
        not_checked=tuple(left_out),
    )


def memory_of_lowered(target: str, lowered: LoweringReply) -> MemoryReport:
    """The memory of a model from the programs that it was lowered to."""
    program = read_pte(lowered.program.path)
    method = program.method()
    left_out = [_SCRATCH]
    inference = without = None
    if lowered.inference is not None:
        if lowered.inference.path:
            predicting = read_pte(lowered.inference.path)
            inference = memory_of(predicting, predicting.method())
        else:
            left_out.append(NotChecked("inference of the model", lowered.inference.failure))
    if lowered.stock is not None:
        if lowered.stock.path:
            without = read_pte(lowered.stock.path).method().arena_bytes
        else:
            left_out.append(NotChecked("the model without rewrites", lowered.stock.failure))
    return MemoryReport(
        target=target,
        training=bool(program.training),
        program=memory_of(program, method, lowered.program.modules),
        inference=inference,
        without_rewrites=without,
        rewrites=rewrite_memory(program, method, lowered.program.rewrites),
        not_checked=tuple(left_out),
        guesses=lowered.guesses,
    )


def _methods(program: PteProgram, path: str) -> list[PteMethod]:
    """Methods that run, the one that trains first."""
    found = [method for method in program.methods if not is_metadata(method)]
    if not found:
        raise ModelError(f"{Path(path)} has no method that runs", "Export the model again.")
    return sorted(found, key=lambda method: method.name not in program.training)
