"""`graphcheck memory`: the plan of a program, instruction by instruction."""

from __future__ import annotations

import json

import pytest

from graphcheck.artefacts.memory import Life, _curve, memory_of, rewrite_memory
from graphcheck.artefacts.memory_run import memory_of_file
from graphcheck.artefacts.views import view_bases
from graphcheck.cli.main import run
from graphcheck.graph.pte_types import Allocation, PteInstruction, PteMethod, PteProgram, PteValue

FLOATS = 4


def tensor(index: int, offset: int, size: int, **more) -> PteValue:
    return PteValue(
        index,
        "tensor",
        dtype="float32",
        shape=(size // FLOATS,),
        dim_order=(0,),
        allocation=Allocation(1, offset),
        nbytes=size,
        **more,
    )


def call(index: int, reads: tuple[int, ...], writes: tuple[int, ...]) -> PteInstruction:
    return PteInstruction(index, "kernel", "aten::f.out", (*reads, *writes, *writes), writes, reads)


def program(*instructions: PteInstruction, values, inputs=(), outputs=()) -> PteProgram:
    size = max(v.allocation.offset + v.nbytes for v in values)
    method = PteMethod(
        "forward",
        values=tuple(values),
        inputs=inputs,
        outputs=outputs,
        instructions=instructions,
        buffer_sizes=(0, size),
    )
    return PteProgram((method,))


def test_what_is_alive_is_counted_once():
    # 0 is the input; 1 and 2 are made in turn, 3 takes the place of 1.
    values = [tensor(0, 0, 400), tensor(1, 400, 100), tensor(2, 500, 200), tensor(3, 400, 80)]
    found = program(
        call(0, (0,), (1,)),
        call(1, (1,), (2,)),
        call(2, (2,), (3,)),
        values=values,
        inputs=(0,),
        outputs=(3,),
    )
    memory = memory_of(found, found.method())
    # The input is used up after the first one.
    assert memory.curve == (500, 300, 280)
    assert (memory.peak, memory.peak_at, memory.arena, memory.inputs) == (500, 0, 700, 400)
    assert memory.at_peak == {
        "weight": 0,
        "buffer": 0,
        "input": 400,
        "gradient": 0,
        "activation": 100,
    }
    assert [big.size for big in memory.largest] == [400, 200, 100, 80]


def test_a_view_without_instruction_holds_what_it_shows():
    # 2 is 1 in another shape: nobody writes it.
    values = [tensor(0, 0, 40), tensor(1, 40, 100), tensor(2, 40, 100), tensor(3, 140, 20)]
    found = program(
        call(0, (0,), (1,)),
        call(1, (0,), (3,)),
        call(2, (2,), (3,)),
        values=values,
        inputs=(0,),
        outputs=(3,),
    )
    assert view_bases(found.method())(2) == 1
    assert view_bases(found.method())(1) == 1
    memory = memory_of(found, found.method())
    assert memory.curve == (140, 160, 120)
    assert [big.size for big in memory.largest] == [100, 40, 20]


def test_a_rewrite_adds_what_only_it_reads():
    values = [tensor(0, 0, 40), tensor(1, 40, 400), tensor(2, 440, 40), tensor(3, 480, 40)]
    found = program(
        call(0, (0,), (1,)),
        call(1, (1,), (2,)),
        call(2, (2,), (3,)),
        values=values,
        inputs=(0,),
        outputs=(3,),
    )
    (entry,) = rewrite_memory(found, found.method(), ("scatter", "scatter", ""))
    assert (entry.name, entry.instructions, entry.written) == ("scatter", 2, 440)
    # With it 440 bytes at instructions 0 and 1; without the 400 between, 80 at instruction 2.
    assert entry.adds == 360


def test_lives_beyond_the_end_do_no_harm():
    life = Life(tensor(0, 0, 8), 0, 99, "activation", -1)
    assert _curve([life], 2) == [8, 8]
    assert _curve([life], 0) == []


@pytest.mark.parametrize("name", ["tiny", "lists", "pools", "faulty", "outside", "delegated"])
def test_the_peak_is_within_the_arena(files, name):
    report = memory_of_file(str(files / f"{name}.pte"))
    memory = report.program
    assert 0 < memory.peak <= memory.arena
    assert memory.peak == max(memory.curve) == memory.curve[memory.peak_at]
    # The planner packs well, except for the alignment of a few bytes.
    assert memory.peak > 0.6 * memory.arena or memory.arena < 1000
    assert len(memory.curve) == memory.instructions
    assert memory.curve[memory.peak_at] <= sum(memory.at_peak.values())


def test_kinds_of_a_training_program(files):
    report = memory_of_file(str(files / "pools.pte"))
    memory = report.program
    assert report.training
    assert memory.weights == 4 * (2 * 9 + 2 + 3 * 18 + 3 + 24 + 2)
    assert memory.gradients == memory.weights
    assert memory.inputs == 4 * 2 * 16 * 16 + 8 * 2
    assert "inference of the same model" in [entry.what for entry in report.not_checked]
    assert {"conv1", "after conv1"} & {big.module for big in memory.largest}


def test_external_and_delegated(files):
    outside = memory_of_file(str(files / "outside.pte"))
    assert not outside.training
    assert outside.program.external > 0
    delegated = memory_of_file(str(files / "delegated.pte"))
    assert "memory of XnnpackBackend in forward" in [e.what for e in delegated.not_checked]


def test_the_command(files, capsys):
    path = str(files / "pools.pte")
    assert run(["memory", path, "--output-format", "json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["kind"], body["schema_version"]) == ("memory", "1")
    assert len(body["program"]["curve"]) == body["program"]["instructions"]
    assert run(["memory", path]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("method forward, training: arena 6.45 kB")
    assert shown[1].startswith("    weights 412 bytes, gradients 412 bytes, buffers 0 bytes")
    assert shown[2].startswith("    peak ")
    assert set(shown[3].strip()) <= set("▁▂▃▄▅▆▇█_.-=+*%#")
    assert shown[4].strip() == "^ loss"
    assert run(["memory", path, "--output-format", "github"]) == 2
    assert "memory has no output format `github`." in capsys.readouterr().err
