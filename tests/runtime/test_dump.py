"""Dumping what instructions are given and give."""

from __future__ import annotations

import numpy
import pytest

from graphcheck.graph.pte import read_pte
from graphcheck.runtime.devices.host import train
from graphcheck.runtime.types import TensorData

pytestmark = pytest.mark.usefixtures("runner")


def _arrays(dump):
    return [a.array for a in dump.arguments if isinstance(a, TensorData)]


def test_every_instruction_is_dumped_with_what_it_was_given(programs):
    case = programs["healthy"]
    trace = train(case.request(steps=2, dump_step=1))
    instructions = read_pte(case.path).method().instructions
    assert [dump.instruction for dump in trace.dump] == [i.index for i in instructions]
    assert [dump.op for dump in trace.dump] == [i.op for i in instructions]
    checked = set()
    for dump in trace.dump:
        given = _arrays(dump)
        result = dump.outputs[0].array
        if dump.op == "aten::mul.out":
            expected = given[0] * given[1]
        elif dump.op == "aten::sub.out":
            expected = given[0] - numpy.asarray(dump.arguments[2] * given[1], given[1].dtype)
        elif dump.op == "aten::permute_copy.out":
            expected = given[0].transpose(dump.arguments[1])
        elif dump.op == "aten::mm.out":
            expected = given[0] @ given[1]
        elif dump.op == "aten::sum.IntList_out" and given[0].dtype == numpy.float32:
            axes = tuple(dump.arguments[1]) or None
            expected = given[0].sum(axes, keepdims=dump.arguments[2])
        else:
            continue
        checked.add(dump.op)
        numpy.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert checked == {
        "aten::mul.out",
        "aten::sub.out",
        "aten::permute_copy.out",
        "aten::mm.out",
        "aten::sum.IntList_out",
    }


def test_the_dump_is_of_the_step_that_was_asked(programs):
    case = programs["dynamic"]
    trace = train(case.request(steps=3, dump_step=2, dump_only=(2,)))
    assert [(dump.instruction, dump.op) for dump in trace.dump] == [(2, "aten::addmm.out")]
    bias, x, weight = _arrays(trace.dump[0])
    parameters = trace.steps[2].parameters
    numpy.testing.assert_array_equal(bias, parameters["a.bias"])
    numpy.testing.assert_array_equal(weight, parameters["a.weight"].T)
    assert x.shape == (4, 6)
    numpy.testing.assert_allclose(trace.dump[0].outputs[0].array, x @ weight + bias, rtol=1e-5)


def test_dumping_does_not_change_the_training(programs):
    case = programs["counter_buffer"]
    plain = train(case.request(steps=3))
    dumped = train(case.request(steps=3, dump_step=1))
    assert [s.loss for s in plain.steps] == [s.loss for s in dumped.steps]


def test_what_is_changed_in_place_is_dumped_before_and_after(programs):
    trace = train(programs["counter_buffer"].request(steps=3, dump_step=2))
    copy = next(dump for dump in trace.dump if dump.op == "aten::copy_")
    before, new = _arrays(copy)[:2]
    assert (float(before), float(new), float(copy.outputs[0].array)) == (2.0, 3.0, 3.0)


def test_bfloat16_is_told_and_given_as_float32(programs):
    trace = train(programs["mlp_bf16"].request(steps=1, dump_step=0))
    tanh = next(dump for dump in trace.dump if dump.op == "aten::tanh.out")
    assert (tanh.arguments[0].dtype, tanh.arguments[0].array.dtype) == ("bfloat16", numpy.float32)
    assert tanh.arguments[1] is None
    expected = numpy.tanh(tanh.arguments[0].array)
    numpy.testing.assert_allclose(tanh.outputs[0].array, expected, rtol=1e-2)


def test_a_kernel_library_is_what_the_dump_shows(programs, kernel_library):
    library = kernel_library("tanh", 3)
    options = {"steps": 1, "dump_step": 0, "fill": "nan", "dump_only": (3,)}
    stock = train(programs["dynamic"].request(**options))
    faulty = train(programs["dynamic"].request(**options, kernel_libraries=(library,)))
    expected = numpy.tanh(_arrays(stock.dump[0])[0])
    numpy.testing.assert_allclose(stock.dump[0].outputs[0].array, expected, rtol=1e-5)
    wrong = faulty.dump[0].outputs[0].array != stock.dump[0].outputs[0].array
    assert wrong[-1, -1]
