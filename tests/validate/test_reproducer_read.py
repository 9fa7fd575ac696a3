"""Folders that are no reproducer, or a damaged one: one sentence each, and what to do."""

from __future__ import annotations

import json

import numpy
import pytest

from graphcheck.cli.main import run
from graphcheck.errors import ModelError, UsageError
from graphcheck.validate.reproducer import FILES, reproduce
from graphcheck.validate.reproducer_read import read_reproducer

FACTS = {
    "kind": "reproducer",
    "schema_version": "1",
    "instruction": {"op": "aten::relu.out", "instruction": 3, "error": "nan", "more": [1]},
    "inputs": [{"dtype": "float32", "shape": [2], "dim_order": [0]}],
    "outputs": ["output", "input"],
    "kernel_libraries": [],
    "versions": {},
}
ARRAYS = {
    "input_0": numpy.zeros(8, numpy.uint8),
    "expected_0": numpy.zeros(2, numpy.float32),
    "tolerance_0": numpy.zeros(2, numpy.float32),
    "expected_1": numpy.zeros(2, numpy.float32),
    "tolerance_1": numpy.asarray(0.0),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / FILES[0]).write_bytes(b"no program")
    _write(tmp_path)
    return tmp_path


def _write(folder, facts=FACTS, arrays=ARRAYS):
    (folder / FILES[2]).write_text(facts if isinstance(facts, str) else json.dumps(facts))
    if isinstance(arrays, bytes):
        (folder / FILES[1]).write_bytes(arrays)
    else:
        numpy.savez_compressed(folder / FILES[1], **arrays)


def test_what_was_written_is_read(folder):
    facts, arrays = read_reproducer(folder)
    assert (facts.instruction.op, facts.outputs) == ("aten::relu.out", ("output", "input"))
    assert set(arrays) == set(ARRAYS)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ("", "reproducer.json is no JSON object"),
        ('{"kind": "reproducer",', "reproducer.json is no JSON object"),
        ("[1, 2]", "reproducer.json is no JSON object"),
        ("{}", "reproducer.json is not that of a reproducer"),
        (FACTS | {"schema_version": "9"}, "it is of another version"),
        (
            {key: value for key, value in FACTS.items() if key != "inputs"},
            "reproducer.json has a wrong form: Object missing required field `inputs`",
        ),
        (
            FACTS | {"instruction": {"op": 3, "instruction": 3}},
            "reproducer.json has a wrong form: Expected `str`, got `int` - at `$.instruction.op`",
        ),
        (
            FACTS | {"outputs": ["output", "magic"]},
            "reproducer.json has a wrong form: Invalid enum value 'magic' - at `$.outputs[1]`",
        ),
        (FACTS | {"outputs": ["output"] * 3}, "tensors.npz lacks expected_2"),
    ],
)
def test_damaged_facts(folder, facts, why):
    _write(folder, facts)
    _refused(folder, why)


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        (b"", "tensors.npz is no archive of arrays, or was cut short"),
        (b"PK\x03\x04 and then nothing", "tensors.npz is no archive of arrays, or was cut short"),
        ({}, "tensors.npz lacks input_0"),
        (ARRAYS | {"expected_0": numpy.asarray("text")}, "expected_0 of tensors.npz is of dtype"),
        (
            ARRAYS | {"tolerance_0": numpy.zeros(3)},
            "tolerance_0 of tensors.npz has another shape than expected_0",
        ),
        (
            ARRAYS | {"expected_0": numpy.asarray({}, dtype=object)},
            "tensors.npz holds what is no array: Object arrays cannot be loaded",
        ),
    ],
)
def test_damaged_arrays(folder, arrays, why):
    _write(folder, arrays=arrays)
    _refused(folder, why)


def test_a_bit_that_was_flipped(folder):
    data = bytearray((folder / FILES[1]).read_bytes())
    data[data.index(b"expected_0.npy") + 44] ^= 0x40
    (folder / FILES[1]).write_bytes(data)
    with pytest.raises(ModelError, match=r" is a damaged reproducer: "):
        read_reproducer(folder)


def test_arrays_that_do_not_fit_the_program(folder):
    def train(_):
        raise UsageError("7 bytes are no float32 tensor of shape [2]")

    with pytest.raises(ModelError) as refused:
        reproduce(folder, train)
    assert refused.value.message == (
        f"{folder} is a damaged reproducer: 7 bytes are no float32 tensor of shape [2]"
    )


def _refused(folder, why):
    with pytest.raises(ModelError) as refused:
        read_reproducer(folder)
    assert refused.value.message.startswith(f"{folder} is a damaged reproducer: {why}")
    assert refused.value.hint == (
        "Write it anew with `graphcheck validate TARGET --shadow --reproducers DIR`."
    )


def test_exit_codes_and_sentences(folder, capsys):
    assert run(["validate", "--reproduce", str(folder / "nosuch")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"graphcheck: error: --reproduce {folder / 'nosuch'}: there is no such folder.",
        "next: Name a folder that `graphcheck validate --shadow --reproducers DIR` wrote.",
    ]
    assert run(["validate", "--reproduce", str(folder / FILES[0])]) == 2
    assert "op.pte: is a file, not a folder.\nnext: " in capsys.readouterr().err
    (folder / FILES[2]).write_text('{"kind"')
    assert run(["validate", "--reproduce", str(folder)]) == 3
    assert capsys.readouterr().err.splitlines() == [
        f"graphcheck: error: {folder} is a damaged reproducer: reproducer.json is no JSON object",
        "next: Write it anew with `graphcheck validate TARGET --shadow --reproducers DIR`.",
    ]
    (folder / FILES[1]).unlink()
    assert run(["validate", "--reproduce", str(folder)]) == 3
    assert f"{folder} is no reproducer: it has no tensors.npz" in capsys.readouterr().err
