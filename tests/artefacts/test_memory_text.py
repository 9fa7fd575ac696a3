"""What `graphcheck memory` says of the rewrites of a program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphcheck.artefacts.memory_text import memory_text
from graphcheck.artefacts.memory_types import MemoryReport, MethodMemory, RewriteMemory
from graphcheck.report.interface import Look

_METHOD = MethodMemory(
    method="forward",
    arena=64_000,
    constants=0,
    external=0,
    weights=4_000,
    buffers=0,
    inputs=2_000,
    gradients=4_000,
    peak=60_000,
    peak_at=3,
    peak_op="aten::mm.out",
    peak_module="fc",
    loss_at=4,
    instructions=9,
    at_peak={"activation": 60_000},
    curve=(1, 2, 3),
    largest=(),
)
_REPORT = MemoryReport(
    target="model.py",
    training=True,
    program=_METHOD,
    without_rewrites=64_000,
    rewrites=(RewriteMemory("dropout_scaled", 3, 6_000, 2_000), RewriteMemory("relu", 1, 500, 0)),
)


def _told(report: MemoryReport) -> list[str]:
    lines = memory_text(report, Look()).splitlines()
    return [line for line in lines if "rewrite" in line]


@pytest.mark.parametrize(
    ("without", "told"),
    [
        (64_000, "without rewrites: arena 64 kB; with them the same"),
        (60_000, "without rewrites: arena 60 kB; with them 4 kB more"),
        (65_000, "without rewrites: arena 65 kB; with them 1 kB less"),
    ],
)
def test_the_arena_with_rewrites_and_without(without: int, told: str) -> None:
    assert _told(replace(_REPORT, without_rewrites=without))[0] == told


def test_a_rewrite_can_be_of_the_peak_and_the_arena_the_same() -> None:
    """What it replaces may have taken as much: neither sentence claims anything of the other."""
    assert _told(_REPORT)[1:] == [
        "rewrite dropout_scaled (3 instructions, writing 6 kB): what it alone makes and "
        "reads is 2 kB of the peak",
        "rewrite relu (1 instruction, writing 500 bytes): what it alone makes and reads is no "
        "part of the peak",
    ]
