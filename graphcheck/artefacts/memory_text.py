"""The memory of a program as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from graphcheck.artefacts.memory_types import MemoryReport, MethodMemory
from graphcheck.report.about import byte_size
from graphcheck.report.ansi import Paint, wrap
from graphcheck.report.interface import Look
from graphcheck.report.sparkline import sparkline
from graphcheck.report.words import counted

__all__ = ["memory_json", "memory_text"]

_INDENT = "    "
_WIDTH = 72


def memory_text(report: MemoryReport, look: Look) -> str:
    """What takes memory, when, and compared with what."""
    paint = Paint(color=look.color)
    blocks = [list(_method(report.program, look, paint, training=report.training))]
    blocks += [list(_method(other, look, paint, training=False)) for other in report.others]
    compared = [wrap(line, look.width) for line in _compared(report)]
    blocks.append(compared)
    if look.verbosity >= 0:
        blocks.append(list(_largest(report.program, look, paint)))
        for title, entries in (
            ("Guessed, since it was not given:", report.guesses),
            ("NOT CHECKED:", tuple(f"{n.what}: {n.why}" for n in report.not_checked)),
        ):
            if entries:
                lines = [wrap(entry, look.width, "  - ", "") for entry in entries]
                blocks.append([paint(title, "bold"), *lines])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _method(memory: MethodMemory, look: Look, paint: Paint, *, training: bool) -> Iterator[str]:
    kind = "training" if training else "inference"
    yield paint(f"method {memory.method}, {kind}: arena {byte_size(memory.arena)}", "bold")
    held = [
        f"weights {byte_size(memory.weights)}",
        f"buffers {byte_size(memory.buffers)}",
        f"inputs {byte_size(memory.inputs)}",
    ]
    if training:
        held.insert(1, f"gradients {byte_size(memory.gradients)}")
    if memory.constants:
        held.append(f"and {byte_size(memory.constants)} of constants in the file")
    if memory.external:
        held.append(f"and {byte_size(memory.external)} of data in a .ptd file")
    yield wrap(", ".join(held), look.width, _INDENT)
    if not memory.curve:
        return
    where = f" ({memory.peak_module})" if memory.peak_module else ""
    made = ", ".join(f"{kind} {byte_size(size)}" for kind, size in memory.at_peak.items() if size)
    yield wrap(
        f"peak {byte_size(memory.peak)} at instruction {memory.peak_at} of {memory.instructions}, "
        f"{memory.peak_op}{where}: {made}",
        look.width,
        _INDENT,
    )
    # From zero, so that heights can be compared.
    limits = (0.0, float(memory.peak))
    curve = sparkline([float(v) for v in memory.curve], limits, width=_WIDTH, unicode=look.unicode)
    yield f"{_INDENT}{curve}"
    if memory.loss_at >= 0:
        columns = min(_WIDTH, memory.instructions)
        at = int(memory.loss_at * columns / memory.instructions)
        mark = f"{' ' * at}^ loss" if at < columns - 6 else f"{' ' * max(at - 5, 0)}loss ^"
        yield f"{_INDENT}{mark}"


def _compared(report: MemoryReport) -> Iterator[str]:
    program, inference = report.program, report.inference
    if inference is not None:
        own = inference.arena + inference.constants
        ours = program.arena + program.constants
        ratio = f", {ours / own:.1f} times as much" if own else ""
        yield (
            f"inference of the same model: arena {byte_size(inference.arena)} and "
            f"{byte_size(inference.constants)} of constants in the file; training takes "
            f"{byte_size(ours)}{ratio}"
        )
    if report.without_rewrites is not None:
        change = program.arena - report.without_rewrites
        more = "more" if change > 0 else "less"
        yield f"without rewrites: arena {byte_size(report.without_rewrites)}; with them " + (
            f"{byte_size(abs(change))} {more}" if change else "the same"
        )
    for entry in report.rewrites:
        part = f"{byte_size(entry.adds)} of the peak" if entry.adds > 0 else "no part of the peak"
        yield (
            f"rewrite {entry.name} ({counted(entry.instructions, 'instruction')}, writing "
            f"{byte_size(entry.written)}): what it alone makes and reads is {part}"
        )


def _largest(memory: MethodMemory, look: Look, paint: Paint) -> Iterator[str]:
    if not memory.largest:
        return
    yield paint("Largest tensors", "bold")
    rows = [
        (byte_size(t.size), t.tensor, f"{t.first} to {t.last}", t.op, t.module)
        for t in memory.largest
    ]
    head = ("size", "tensor", "instructions", "made by", "module")
    sizes = [max(len(row[i]) for row in (head, *rows)) for i in range(4)]
    for row in (head, *rows):
        cells = "  ".join(f"{cell:<{size}}" for cell, size in zip(row, sizes, strict=False))
        yield f"{_INDENT}{cells}  {row[-1]}".rstrip()


def memory_json(report: MemoryReport) -> str:
    """Everything, with a schema version."""
    import msgspec

    body = msgspec.to_builtins(report)
    head = {"kind": "memory", "schema_version": body.pop("schema_version")}
    return json.dumps({**head, **body}, indent=2) + "\n"
