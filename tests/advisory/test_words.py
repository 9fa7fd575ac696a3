"""An advisory in words."""

from __future__ import annotations

from dataclasses import replace

from graphcheck.advisory import advisory_by_id, describe
from graphcheck.advisory.types import Advisory, ProbeResult

ADVISORY = Advisory(
    id="GCA-2026-0099",
    title="Halves are doubled",
    ops=("aten.half",),
    kernels=("aten::half.out",),
    affected=">=1.0,<2.0",
    rule="GC301",
    what="It doubles them.",
    consequence="Wrong.",
    evidence=("4 for 1",),
    references=("https://example.org/1",),
    probe="halves",
    mends=(
        {"kind": "rewrite", "name": "a", "description": "do", "exact": True, "command": "run"},
        {"kind": "edit", "name": "b", "description": "by hand", "exact": False, "command": ""},
    ),
)

TEXT = """\
GCA-2026-0099: Halves are doubled

what: It doubles them.
consequence: Wrong.
ops: aten.half
kernels: aten::half.out
affected: executorch >=1.0,<2.0
fixed in: no release known
reported by: GC301
on this machine: {machine}
evidence:
  - 4 for 1
references:
  - https://example.org/1
mends:
  - rewrite a (exact): do: `run`
  - edit b (not the same function): by hand"""


def test_the_whole_advisory() -> None:
    assert describe(ADVISORY) == TEXT.format(machine="not probed yet (probe halves)")


def test_what_the_probe_saw() -> None:
    wrong = ProbeResult("GCA-2026-0099", "wrong", figure="4 for 1")
    assert describe(ADVISORY, wrong) == TEXT.format(machine="wrong: 4 for 1 (probe halves)")
    not_run = ProbeResult("GCA-2026-0099", "not run", detail="it crashed")
    assert describe(ADVISORY, not_run) == TEXT.format(machine="not run: it crashed (probe halves)")
    assert describe(replace(ADVISORY, probe="")) == TEXT.format(machine="cannot be probed")


def test_an_advisory_without_ops_says_what_it_concerns() -> None:
    advisory = advisory_by_id("GCA-2026-0015")
    assert advisory is not None
    assert "ops: mutated buffers" in describe(advisory).splitlines()
