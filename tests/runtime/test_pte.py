"""Reading `.pte` files: what real programs say, and files that are none."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphcheck import spill
from graphcheck.errors import ModelError
from graphcheck.graph.pte import read_before_written, read_pte

OUTPUTS = {
    "aten::max_pool2d_with_indices.out": 2,
    "aten::convolution_backward.out": 3,
    "aten::native_dropout.out": 2,
    "aten::native_group_norm.out": 3,
}


def test_the_training_metadata_is_read(programs):
    program = read_pte(programs["seed_cnn"].path)
    training = program.training["forward"]
    assert (training.gradients_index, training.parameters_index) == (1, 9)
    assert training.names == (
        "conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
        "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias",
    )  # fmt: skip
    assert {method.name for method in program.methods} == {
        "forward",
        "__et_training_gradients_index_forward",
        "__et_training_parameters_index_forward",
        "__et_training_fqn_forward",
    }


def test_values_have_shape_dtype_and_place(programs):
    method = read_pte(programs["seed_cnn"].path).method()
    x, y = (method.values[index] for index in method.inputs)
    assert (x.dtype, x.shape, x.dim_order, x.nbytes) == (
        "float32",
        (32, 3, 32, 32),
        (0, 1, 2, 3),
        32 * 3 * 32 * 32 * 4,
    )
    assert (y.dtype, y.shape) == ("int64", (32,))
    weights = [method.values[index] for index in method.outputs[9:]]
    assert all(value.initialized and not value.constant for value in weights)
    assert [value.shape for value in weights[:2]] == [(8, 3, 3, 3), (8,)]
    assert method.buffer_sizes[0] == 0
    assert method.arena_bytes == 6302768
    places = [value.allocation for value in weights]
    assert len({place.offset for place in places}) == len(places)


def test_dtypes_and_dynamism(programs):
    method = read_pte(programs["mlp_bf16"].path).method()
    assert method.values[method.inputs[0]].dtype == "bfloat16"
    value = read_pte(programs["dynamic"].path).method().values[0]
    assert value.dynamism == "static"
    method = read_pte(programs["dynamic"].path).method()
    x = method.values[method.inputs[0]]
    assert (x.dynamism, x.shape) == ("bound", (16, 6))


def test_instructions_come_in_order_with_their_ops(programs):
    instructions = read_pte(programs["seed_cnn"].path).method().instructions
    assert [instruction.index for instruction in instructions] == list(range(80))
    ops = [instruction.op for instruction in instructions]
    assert ops[:2] == ["aten::convolution.out", "aten::relu.out"]
    assert ops.count("aten::max_pool2d_with_indices_backward.grad_input") == 2
    assert {instruction.kind for instruction in instructions} == {"kernel"}


def test_what_is_written_is_what_the_out_arguments_say(programs):
    seen = set()
    for case in programs.values():
        method = read_pte(case.path).method()
        for instruction in method.instructions:
            base = instruction.op.partition("::")[2].partition(".")[0]
            assert instruction.writes, instruction
            if instruction.op.startswith("aten::sym_size") or "prim" in instruction.op:
                assert [method.values[i].kind for i in instruction.writes] == ["int"]
            elif base.endswith("_"):
                assert instruction.args[0] in instruction.writes
                assert instruction.args[0] in instruction.reads
                seen.add("in place")
            else:
                # An out argument comes before the returned value, and nothing after it.
                count = len(instruction.writes)
                assert instruction.args[-1 - count : -1] == instruction.writes
                assert not set(instruction.writes) & set(instruction.reads)
                assert instruction.args[-1] not in instruction.reads
                assert count == OUTPUTS.get(instruction.op, 1)
                seen.add("several" if count > 1 else "one")
    assert seen == {"in place", "several", "one"}


def test_nothing_but_a_buffer_without_initial_state_is_read_before_it_is_written(programs):
    # If the rule on outputs missed one, its reader would show here.
    found = {
        name: read_before_written(read_pte(case.path).method()) for name, case in programs.items()
    }
    (buffer,) = found.pop("counter_buffer")
    method = read_pte(programs["counter_buffer"].path).method()
    (written,) = (i.writes for i in method.instructions if i.op == "aten::copy_")
    assert written == (buffer,)
    assert set(found.values()) == {()}


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty, not an ExecuTorch program"),
        (b"1234567", "is not an ExecuTorch program (its bytes 4 to 8 are not 'ET12')"),
        (b"x" * 100, "is not an ExecuTorch program (its bytes 4 to 8 are not 'ET12')"),
        (
            b"PK\x03\x04" + bytes(60),
            "is a zip archive (a .pt2 or a checkpoint), not an ExecuTorch program",
        ),
        (b"\x80\x02" + bytes(60), "is a pickle, not an ExecuTorch program"),
        (
            bytes(4) + b"FT01" + bytes(60),
            "is a .ptd file, the data of a program and not the program",
        ),
    ],
)
def test_a_file_that_is_no_program(tmp_path, data, what):
    path = tmp_path / "model.pte"
    path.write_bytes(data)
    with pytest.raises(ModelError) as caught:
        read_pte(path)
    assert caught.value.message == f"{path} {what}"
    assert caught.value.hint == "Give the .pte file that to_executorch() wrote."


def test_a_folder_and_a_pipe_are_no_program(tmp_path):
    os.mkfifo(tmp_path / "pipe.pte")
    with pytest.raises(
        ModelError, match=r"pipe\.pte is no regular file, not an ExecuTorch program"
    ):
        read_pte(tmp_path / "pipe.pte")
    with pytest.raises(ModelError, match="is a folder, not an ExecuTorch program"):
        read_pte(tmp_path)


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(ModelError) as caught:
        read_pte(tmp_path / "none.pte")
    assert (
        caught.value.message == f"{tmp_path / 'none.pte'} cannot be read: No such file or directory"
    )


def test_a_truncated_file_says_so(programs):
    data = programs["dynamic"].path.read_bytes()
    with pytest.raises(ModelError) as caught:
        read_pte(data[:-1])
    assert caught.value.message == (
        "the program is a damaged ExecuTorch program: "
        f"it is truncated to {len(data) - 1} of {len(data)} bytes"
    )


def test_a_header_that_promises_nothing_is_refused():
    data = struct.pack("<I4s4sIQQQ", 48, b"ET12", b"eh00", 32, 8, 0, 0)
    with pytest.raises(ModelError, match="damaged"):
        read_pte(data)


def test_a_method_that_is_not_there(programs):
    with pytest.raises(ModelError) as caught:
        read_pte(programs["dynamic"].path).method("train")
    assert caught.value.message.startswith("the program has no method 'train' (it has: forward, ")


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_damage_is_never_more_than_a_model_error(programs, data):
    original = programs["dynamic"].path.read_bytes()
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(8, len(original) - 9))
        kind = data.draw(st.sampled_from(["byte", "offset", "cut"]))
        if kind == "byte":
            damaged[at % len(damaged)] = data.draw(st.integers(0, 255))
        elif kind == "offset":
            number = data.draw(st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]))
            struct.pack_into("<I", damaged, min(at, len(damaged) - 4), number)
        else:
            damaged = damaged[: max(at, 16)]
    with contextlib.suppress(ModelError):
        assert read_pte(bytes(damaged)).size == len(damaged)


def test_a_program_is_read_from_a_mapped_file(programs, monkeypatch):
    monkeypatch.setattr(spill, "LARGE_BYTES", 1)
    path = programs["healthy"].path
    kept = spill.parked(path.read_bytes())
    assert isinstance(kept, mmap.mmap)
    assert read_pte(kept) == read_pte(path)
