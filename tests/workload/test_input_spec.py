"""Input specifications: what is read, what is refused, what is made of them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphcheck.errors import UsageError
from graphcheck.workload.input_spec import DTYPES, InputSpec, make_tensor, parse_input

EXAMPLE = "Write it like 'float32[2,3,64,64]', 'int64[2]<10' or 'mask=bool[2,5]'."


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("float32[2,3,64,64]", InputSpec("float32", (2, 3, 64, 64))),
        ("int64[2]<10", InputSpec("int64", (2,), 10)),
        ("mask=bool[2,5]", InputSpec("bool", (2, 5), None, "mask")),
        (" mask = bf16 [ 2 , 5 ] ", InputSpec("bfloat16", (2, 5), None, "mask")),
        ("float32[]", InputSpec("float32", ())),
        ("y=u8[4] < 3", InputSpec("uint8", (4,), 3, "y")),
        ("long[1]<9223372036854775807", InputSpec("int64", (1,), 2**63 - 1)),
    ],
)
def test_read(text, spec):
    assert parse_input(text) == spec
    assert parse_input(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("2,3", "'2,3' is not an input specification.", EXAMPLE),
        ("float32", "'float32' is not an input specification.", EXAMPLE),
        ("float32[2", "'float32[2' is not an input specification.", EXAMPLE),
        ("1x=float32[2]", "'1x=float32[2]' is not an input specification.", EXAMPLE),
        (
            "float8[2]",
            "'float8[2]' has an unknown type 'float8'.",
            "Known: float32, float16, bfloat16, float64, int8, int16, int32, int64, uint8, bool.",
        ),
        (
            "float32[2,-1]",
            "'float32[2,-1]' has a size '-1'; a size is a whole number of at least 1.",
            EXAMPLE,
        ),
        (
            "float32[2,]",
            "'float32[2,]' has a size ''; a size is a whole number of at least 1.",
            EXAMPLE,
        ),
        (
            "float32[0]",
            "'float32[0]' has a size '0'; a size is a whole number of at least 1.",
            EXAMPLE,
        ),
        (
            "float32[99999,99999,9]",
            "'float32[99999,99999,9]' is a tensor of more than 4 GiB.",
            "Example inputs only have to be large enough for the model to run.",
        ),
        (
            "float32[2]<3",
            "'float32[2]<3' has a bound, but only integer inputs can have one.",
            "Leave out the '<...>'; floating-point inputs are drawn from a normal distribution.",
        ),
        (
            "int8[2]<300",
            "'int8[2]<300' has a bound 300; for int8 it is from 1 to 128.",
            EXAMPLE,
        ),
        ("int64[2]<x", "'int64[2]<x' has a bound 'x' that is not a whole number.", EXAMPLE),
        (
            "int8[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
            "'int8[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]' has 17 dims; ExecuTorch has at most 16.",
            "Give the shape of a tensor that the model takes, such as float32[2,3,64,64].",
        ),
    ],
)
def test_refused(text, message, hint):
    with pytest.raises(UsageError) as caught:
        parse_input(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors(dtype):
    tensor = make_tensor(parse_input(f"{dtype}[3,50]"), seed=7)
    assert tensor.dtype == getattr(torch, DTYPES[dtype])
    assert tuple(tensor.shape) == (3, 50)
    assert len(tensor.unique()) > 1
    again = make_tensor(parse_input(f"{dtype}[3,50]"), seed=7)
    assert torch.equal(tensor, again)
    assert not torch.equal(tensor, make_tensor(parse_input(f"{dtype}[3,50]"), seed=8))


def test_the_bound_is_exclusive():
    values = make_tensor(parse_input("int64[1000]<3"), seed=0)
    assert sorted(values.unique().tolist()) == [0, 1, 2]


SPEC_TEXT = st.text(alphabet="floatintbm[](){}=<>,.-+0123456789 \n\x00é²", max_size=40)
NEARLY = st.builds(
    "{}{}[{}]{}".format,
    st.sampled_from(["", "x=", "x =", "=", "é="]),
    st.sampled_from([*DTYPES, "", "complex64", "FLOAT32"]),
    st.lists(st.integers(-2, 10**13).map(str) | SPEC_TEXT, max_size=20).map(",".join),
    st.sampled_from(["", "<", "<3", "<-1", "<1e3", "<٣", "<<3", f"<{10**30}"]),
)


@settings(max_examples=400, deadline=None)
@given(SPEC_TEXT | NEARLY)
def test_any_text_is_read_or_refused(text):
    refusal = ""
    try:
        spec = parse_input(text)
    except UsageError as error:
        refusal = error.message
    if refusal:
        assert repr(text) in refusal
        return
    assert parse_input(str(spec)) == spec
    assert all(size >= 1 for size in spec.shape)
