"""The stale-output detector, on faulty and on sound kernels."""

from __future__ import annotations

import pytest

from graphcheck.graph.pte import read_pte
from graphcheck.graph.pte_types import Allocation, PteInstruction, PteMethod, PteValue
from graphcheck.runtime.devices.host import train
from graphcheck.runtime.stale import judge
from graphcheck.runtime.types import InstructionOutput
from graphcheck.runtime.wire import Finding, FoundOutput

POOL = "aten::max_pool2d_with_indices_backward.grad_input"


def _roots(trace):
    return [(entry.instruction, entry.op) for entry in trace.stale if not entry.inputs_from]


@pytest.mark.usefixtures("runner")
class TestOnTheRuntime:
    def test_exactly_the_two_pool_backwards_are_root_causes(self, programs):
        case = programs["seed_cnn"]
        trace = train(case.request(steps=1, detect_stale=True))
        pools = [i.index for i in read_pte(case.path).method().instructions if i.op == POOL]
        assert len(pools) == 2
        assert trace.stale_checked
        assert _roots(trace) == [(index, POOL) for index in pools]
        assert trace.stale_unchecked == ()

    def test_what_the_fault_reaches_is_told_with_its_way(self, programs):
        trace = train(programs["seed_cnn"].request(steps=1, detect_stale=True))
        reached = {e.instruction: (e.op, e.inputs_from) for e in trace.stale if e.inputs_from}
        first, second = (index for index, _ in _roots(trace))
        assert reached == {
            first + 4: ("aten::where.self_out", (first,)),
            first + 5: ("aten::convolution_backward.out", (first + 4,)),
            second + 4: ("aten::where.self_out", (second,)),
            second + 5: ("aten::convolution_backward.out", (second + 4,)),
        }

    def test_looking_does_not_change_the_training(self, programs):
        case = programs["healthy"]
        plain, looked = train(case.request()), train(case.request(detect_stale=True))
        assert [s.loss for s in plain.steps] == [s.loss for s in looked.steps]
        assert not plain.stale_checked

    def test_a_sound_kernel_is_not_flagged(self, programs, kernel_library):
        library = kernel_library("pool_backward")
        request = programs["seed_cnn"].request(
            steps=0, detect_stale=True, kernel_libraries=(library,)
        )
        trace = train(request)
        assert trace.stale_checked
        assert trace.stale == ()

    @pytest.mark.parametrize(
        "name", ["healthy", "mlp_f64", "mlp_f16", "mlp_bf16", "counter_buffer", "dynamic"]
    )
    def test_healthy_programs_have_no_finding(self, programs, name):
        trace = train(programs[name].request(steps=0, detect_stale=True))
        assert trace.failure is None
        assert trace.stale_checked
        assert (trace.stale, trace.stale_unchecked) == ((), ())

    @pytest.mark.parametrize("fill", ["zero", "nan"])
    def test_random_ops_are_not_judged_and_hide_nothing(self, programs, fill):
        trace = train(programs["dropout_pool"].request(steps=1, detect_stale=True, fill=fill))
        assert [op for _, op in _roots(trace)] == [POOL]
        assert [(entry.op, entry.reason) for entry in trace.stale_unchecked] == [
            ("aten::native_dropout.out", "gives another result each time: it is random")
        ]
        assert "aten::native_dropout.out" not in {entry.op for entry in trace.stale}

    @pytest.mark.parametrize("mode", [3, 6], ids=["partial write", "minimum with what was there"])
    def test_other_ways_to_depend_on_memory_are_found(self, programs, kernel_library, mode):
        library = kernel_library("tanh", mode)
        request = programs["dynamic"].request(
            steps=0, detect_stale=True, kernel_libraries=(library,)
        )
        trace = train(request)
        assert _roots(trace) == [(3, "aten::tanh.out")]

    def test_a_program_smaller_than_its_bound_is_no_fault(self, programs):
        # The example batch has 4 of 16 rows: the rest of each output is rightly left alone.
        trace = train(programs["dynamic"].request(steps=0, detect_stale=True))
        assert trace.stale == ()

    def test_when_the_detector_cannot_look_training_still_answers(self, programs):
        trace = train(programs["pad_between"].request(detect_stale=True))
        assert not trace.stale_checked
        assert trace.stale_note.startswith("aten::constant_pad_nd.out at instruction ")
        assert trace.failure.stage == "step 0"


def _tensor(index, offset, nbytes=16):
    return PteValue(
        index,
        "tensor",
        dtype="float32",
        shape=(4,),
        allocation=Allocation(1, offset),
        nbytes=nbytes,
    )


def _method(*instructions, outputs=()):
    values = tuple(_tensor(i, 16 * i) for i in range(6))
    return PteMethod(
        "forward",
        values=values,
        outputs=outputs,
        buffer_sizes=(0, 96),
        instructions=tuple(
            PteInstruction(i, "kernel", op, (*reads, *writes), writes, reads)
            for i, (op, reads, writes) in enumerate(instructions)
        ),
    )


def _found(index, value, stale=False, reached=False, random=False):
    return Finding(index, random, (FoundOutput(value, stale, reached),))


class TestJudgement:
    def test_an_output_nobody_reads_is_no_fault(self):
        method = _method(("aten::a.out", (0,), (1,)), ("aten::b.out", (0,), (2,)), outputs=(2,))
        assert judge(method, [_found(0, 1, stale=True)]) == ((), ())

    def test_an_output_of_the_method_is_read(self):
        method = _method(("aten::a.out", (0,), (1,)), outputs=(1,))
        flagged, _ = judge(method, [_found(0, 1, stale=True)])
        assert flagged == (InstructionOutput(0, "aten::a.out"),)

    def test_an_output_written_over_before_it_is_read_is_no_fault(self):
        method = _method(
            ("aten::a.out", (0,), (1,)), ("aten::b.out", (0,), (1,)), ("aten::c.out", (1,), (2,)),
            outputs=(2,),
        )  # fmt: skip
        assert judge(method, [_found(0, 1, stale=True)]) == ((), ())

    def test_empty_is_at_fault_only_when_a_difference_comes_out_of_it(self):
        method = _method(("aten::empty.out", (), (1,)), ("aten::mul.out", (1,), (2,)), outputs=(2,))
        quiet, unchecked = judge(method, [_found(0, 1, stale=True)])
        assert quiet == ()
        assert unchecked[0].reason == "leaves its memory as it was, by contract"
        loud, _ = judge(method, [_found(0, 1, stale=True), _found(1, 2, reached=True)])
        assert loud == (
            InstructionOutput(0, "aten::empty.out"),
            InstructionOutput(1, "aten::mul.out", (0,)),
        )

    def test_a_difference_from_nowhere_is_a_root_cause(self):
        method = _method(("aten::a.out", (0,), (1,)), outputs=(1,))
        flagged, _ = judge(method, [_found(0, 1, reached=True)])
        assert flagged == (InstructionOutput(0, "aten::a.out"),)

    def test_a_random_op_whose_runs_were_equal_by_chance_is_not_at_fault(self):
        method = _method(("aten::native_dropout.out", (0,), (1,)), outputs=(1,))
        for options in ({"stale": True}, {"reached": True}, {"random": True}):
            flagged, unchecked = judge(method, [_found(0, 1, **options)])
            assert flagged == ()
            assert unchecked[0].reason == "gives another result each time: it is random"
        assert judge(method, [_found(0, 1)]) == ((), ())

    def test_a_delegate_is_not_judged(self):
        method = PteMethod("forward", instructions=(PteInstruction(0, "delegate"),))
        _, unchecked = judge(method, [])
        assert [(entry.op, entry.reason) for entry in unchecked] == [
            ("delegate", "a delegate: its inputs and outputs cannot be told apart")
        ]
