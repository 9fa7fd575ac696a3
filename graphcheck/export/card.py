"""The card of a program and the files of an export, written as one set."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from graphcheck.errors import UsageError
from graphcheck.export.rewriting import Rewritten, rewrite_records
from graphcheck.export.types import Card, ExportOptions, ExportResult, InputFact
from graphcheck.files import write_set
from graphcheck.judging import versions
from graphcheck.opset.types import Opset
from graphcheck.runtime.lower import Lowered
from graphcheck.validate.batches import device_batches
from graphcheck.validate.optimizer import named_settings, settings_of
from graphcheck.worker import progress
from graphcheck.workload.types import Workload

__all__ = ["first_card", "write_export"]


def first_card(
    workload: Workload,
    options: ExportOptions,
    output: Path,
    lowered: Lowered,
    rewritten: Rewritten,
    opset: Opset,
    frozen: tuple[str, ...],
    corrections: tuple[str, ...],
) -> Card:
    """What is known of a lowered program before it runs."""
    from graphcheck.graph.pte import read_pte

    program = lowered.program or b""
    parsed = read_pte(program)
    method = next(m for m in parsed.methods if m.name == "forward")
    graph = rewritten.graph
    return Card(
        program=output.name,
        program_bytes=len(program),
        program_sha256=hashlib.sha256(program).hexdigest(),
        target=options.target,
        versions=versions(opset),
        opset=f"{opset.runtime}-{opset.version}",
        kernels=tuple(sorted({name for own in parsed.methods for name in own.operators})),
        arena_bytes=method.arena_bytes,
        inputs=tuple(InputFact(name, fact.dtype, fact.shape) for name, fact in graph.inputs),
        parameters=parsed.training["forward"].names,
        frozen=frozen or tuple(p.name for p in graph.parameters if not p.trainable),
        mutated_buffers=tuple(b.name for b in graph.buffers if b.mutated),
        rewrites=rewrite_records(rewritten.records),
        corrections=corrections,
        guesses=workload.guesses,
        not_checked=rewritten.not_checked,
        optimizer=options.optimizer,
        learning_rate=options.learning_rate,
        optimizer_settings=named_settings(options.optimizer, settings_of(options)),
        weights=output.with_suffix(".ptd").name if lowered.weights is not None else "",
        weights_bytes=len(lowered.weights or b""),
        weights_sha256=hashlib.sha256(lowered.weights).hexdigest() if lowered.weights else "",
    )


def write_export(
    output: Path,
    lowered: Lowered,
    card: Card,
    workload: Workload,
    options: ExportOptions,
    verdict: Any,
) -> ExportResult:
    """Write the program, its weights if they are external, the reference inputs and the card.

    Either all are there, new, or none. Raises UsageError when they cannot be written.
    """
    card_path, inputs_path = output.with_suffix(".card.json"), output.with_suffix(".inputs.bin")
    card = replace(card, reference_inputs_file=inputs_path.name)
    inputs = b"".join(array.data for batch in device_batches(workload) for array in batch)
    files = {output: lowered.program or b""}
    if lowered.weights is not None:
        files[output.with_suffix(".ptd")] = lowered.weights
    files[card_path] = msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n"
    files[inputs_path] = inputs
    progress(f"writing {output}")
    try:
        write_set(files)
    except OSError as error:
        raise UsageError(
            f"{output} could not be written: {error.strerror or error}",
            "nothing half-written was left; free some space or name another place with -o",
        ) from error
    return ExportResult(options.target, written=tuple(map(str, files)), card=card, verdict=verdict)
