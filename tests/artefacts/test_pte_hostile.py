"""Damaged and hostile program files: one sentence, in bounded time and memory."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hand_made import many_values
from mutations import MEMORY

from graphcheck.artefacts.calls import graph_of
from graphcheck.errors import ModelError
from graphcheck.graph.pte import read_pte

HERE = Path(__file__).parent


def fuzz(files: Path, seed: int, count: int, *names: str) -> dict:
    done = subprocess.run(
        [
            sys.executable,
            str(HERE / "mutations.py"),
            str(seed),
            str(count),
            *(str(files / name) for name in names),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_twelve_thousand_mutations_are_programs_or_refused(files):
    result = fuzz(files, 1, 12_000, "tiny.pte", "delegated.pte", "outside.pte")
    assert result["errors"] == []
    assert result["outcomes"]["program"] + result["outcomes"]["refused"] == 12_000
    # Both happen often, or the mutations would test nothing.
    assert min(result["outcomes"].values()) > 2_000
    assert result["peak_mb"] < MEMORY / 2**20


def test_mutations_of_larger_programs(files):
    result = fuzz(files, 2, 500, "pools.pte", "faulty.pte", "lists.pte")
    assert result["errors"] == []
    assert set(result["outcomes"]) == {"program", "refused"}


def refused(data: bytes) -> str:
    with pytest.raises(ModelError) as caught:
        read_pte(data)
    return caught.value.message


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (many_values(3, rank=17), "value 0 has 17 dimensions"),
        (many_values(1_000_000), "millions of entries"),
        (many_values(1, kind=99), "value 0 is of unknown kind 99"),
        (many_values(3, kind=7, items=[0, 1]), "value 0 is a list of lists"),
        (many_values(2, kind=10, items=[0, 1]), "value 0 is a list of lists"),
        (many_values(2, kind=10, items=[7]), "value 0 lists a value that does not exist"),
    ],
    ids=["rank", "a million", "kind", "ints of itself", "lists of itself", "no such value"],
)
def test_made_on_purpose(data, why):
    assert refused(data) == f"the program is a damaged ExecuTorch program: {why}"


def test_a_small_file_that_says_it_is_large_is_not_read_for_long():
    data = many_values(400_000)
    assert len(data) < 2_000_000
    assert "millions of entries" in refused(data)


@pytest.mark.parametrize("order", ["<", ">"])
def test_big_endian(files, order):
    data = bytearray((files / "tiny.pte").read_bytes())
    root = struct.unpack_from("<I", data)[0]
    struct.pack_into(f"{order}I", data, 0, root)
    if order == "<":
        assert read_pte(bytes(data)).methods
    else:
        assert refused(bytes(data)).startswith("the program is a damaged ExecuTorch program: ")


def test_absurd_sizes_in_the_header(files):
    data = bytearray((files / "tiny.pte").read_bytes())
    struct.pack_into("<Q", data, 16, 2**63)
    assert refused(bytes(data)) == (
        f"the program is a damaged ExecuTorch program: it is truncated to {len(data)} of "
        f"{2**63} bytes"
    )


def test_every_truncation_is_refused(files):
    data = (files / "tiny.pte").read_bytes()
    for size in range(0, len(data), 7):
        assert refused(data[:size])


def test_a_list_of_tensors_may_have_holes(files):
    program = read_pte(files / "lists.pte")
    kinds = {value.kind for value in program.method().values}
    assert {"tensor_list", "optional_tensor_list"} & kinds
    from graphcheck.opset.load import load

    calls = graph_of(program, load("executorch-1.5.1")).calls
    cat = next(call for call in calls if call.op == "aten.cat")
    assert [fact.shape for fact in cat.arguments["tensors"]] == [(3, 4)] * 3
    assert cat.arguments["dim"] == 1


def test_operators_with_names_that_are_none_are_refused(files):
    data = (files / "tiny.pte").read_bytes()
    assert b"aten::mean" in data
    assert refused(data.replace(b"aten::mean", b"aten::\nean")).startswith(
        "the program is a damaged ExecuTorch program: an operator is called 'aten::\\nean."
    )


def test_names_with_control_characters_are_refused(files):
    data = (files / "tiny.pte").read_bytes()
    assert "a name with control characters: 'a.w\\x1bight'" in refused(
        data.replace(b"a.weight", b"a.w\x1bight")
    )
