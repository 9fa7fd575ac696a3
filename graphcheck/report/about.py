"""What a program file says of itself, in lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from graphcheck.graph.artefact import Artefact, MethodFact, TrainingFact
from graphcheck.report.ansi import Paint, wrap
from graphcheck.report.interface import Look
from graphcheck.report.words import counted, some_of

__all__ = ["artefact_lines", "byte_size"]

_INDENT = "    "


def byte_size(count: int) -> str:
    """`512 bytes`, `6.3 MB`, `1.2 GB` (powers of 1000, three digits)."""
    if count < 1000:
        return counted(count, "byte")
    value, units = count / 1000, ["kB", "MB", "GB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.3g} {units[0]}"


def artefact_lines(artefact: Artefact, look: Look, paint: Paint) -> Iterator[str]:
    """A heading, the file, and a few lines for each method."""
    yield paint(artefact.format, "bold")
    parts = [f"file {byte_size(artefact.size)}", f"instructions {byte_size(artefact.program_size)}"]
    if artefact.mutable_size:
        parts.append(f"initial weights and buffers {byte_size(artefact.mutable_size)}")
    if artefact.constant_size:
        parts.append(f"constants {byte_size(artefact.constant_size)}")
    yield wrap(", ".join(parts), look.width, _INDENT)
    for method in artefact.methods:
        for line in _method(method, verbose=look.verbosity > 0):
            yield wrap(line, look.width, _INDENT)


def _method(method: MethodFact, *, verbose: bool) -> Iterator[str]:
    kind = "inference" if method.training is None else "training"
    operators = counted(len(method.operators), "operator")
    yield (
        f"method {method.name}, {kind}: {counted(method.instructions, 'instruction')}, {operators}"
    )
    given = ", ".join(method.inputs) or "nothing"
    yield f"{method.name} takes {given}; gives {counted(len(method.outputs), 'output')}"
    memory = ", ".join(
        f"memory {number} {byte_size(size)}" for number, size in enumerate(method.arena, 1)
    )
    state = f", of which {byte_size(method.state)} are weights and buffers" if method.state else ""
    held = f"; {byte_size(method.constants)} of constants in the file" if method.constants else ""
    yield f"{method.name} plans {memory or 'no memory'}{state}{held}"
    if method.external:
        names = some_of(method.external_names, len(method.external_names) if verbose else 3)
        yield (
            f"{method.name} needs a .ptd file with {byte_size(method.external)} of data: "
            f"{names or 'without names'}"
        )
    for delegate in method.delegates:
        yield (
            f"{method.name} hands {counted(delegate.calls, 'call')} to {delegate.backend} "
            f"({byte_size(delegate.size)}): NOT CHECKED"
        )
    if method.training is not None:
        yield _training(method.name, method.training, verbose=verbose)
    if verbose:
        for operator, calls in method.operators.items():
            yield f"{method.name} calls {operator} x{calls}"


def _training(method: str, training: TrainingFact, *, verbose: bool) -> str:
    count = len(training.parameters)
    shown = some_of(training.parameters, count if verbose else 4)
    if training.fault:
        where = "where they start cannot be told"
    elif training.shift:
        where = (
            f"the file says from outputs {training.gradients_index} and "
            f"{training.parameters_index} on, which is {training.shift} too far"
        )
    else:
        where = (
            f"gradients from output {training.gradients_index}, parameters from output "
            f"{training.parameters_index} on"
        )
    return f"{method} trains {counted(count, 'parameter')} ({shown}); {where}"
