"""Ties of every kind: what rounding decides is no error, what is at no tie stays one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from graphcheck.graph.types import Source
from graphcheck.runtime.lower import Instruction
from graphcheck.runtime.types import InstructionDump, StepRecord, TensorData, Trace, TrainRequest
from graphcheck.validate.compare import compare
from graphcheck.validate.noise import op_name
from graphcheck.validate.oracle import Oracle
from graphcheck.validate.ties.choices import family_of
from graphcheck.validate.ties.explain import explain_by_ties
from graphcheck.validate.ties.picks import wrong_picks
from graphcheck.validate.ties.rules import at_zero_mode, named_arguments
from graphcheck.workload.types import Workload

LITTLE = 3e-7
_OVERLOADS = {"max.dim": "dim_max", "min.dim": "dim_min", "max.": "unary_out", "topk.": "values"}


class _Net(nn.Module):
    """A bias, an op, a sum with distinct weights. `shift` is how far a runtime's rounding is off:
    not a parameter, so that both have the same weights."""

    def __init__(self, op, x, shift=0.0):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros_like(x))
        self.register_buffer("shift", torch.as_tensor(shift))
        self.op = op

    def forward(self, x):
        y = self.op(x + self.bias + self.shift)
        return (y * torch.arange(1.0, 1 + y.numel()).reshape(y.shape)).sum()


class _Recorder(TorchDispatchMode):
    """Records the ops that can meet ties as a runtime would."""

    def __init__(self):
        super().__init__()
        self.records = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, overload = op_name(func), func._schema.overload_name
        source = args[0].detach().clone() if args and isinstance(args[0], torch.Tensor) else None
        result = func(*args, **(kwargs or {}))
        if source is not None and family_of(name, overload) and source.is_floating_point():
            results = result if isinstance(result, tuple) else (result,)
            dims = named_arguments(func, args, kwargs or {}).get("dim")
            self.records.append(
                InstructionDump(
                    len(self.records),
                    f"aten::{name}.{_OVERLOADS.get(f'{name}.{overload}', 'out')}",
                    (_data(source), list(dims) if isinstance(dims, (list, tuple)) else dims),
                    tuple(map(_data, results)),
                )
            )
        return result


def _data(tensor):
    return TensorData(str(tensor.dtype).removeprefix("torch."), tensor.detach().numpy().copy())


def _explained(op, x, shift=0.0, mode=None, spoil=lambda gradient: gradient):
    """The comparison before and after, for a runtime that is off by `shift` before the op."""
    x = torch.tensor(x)
    runtime = Oracle(Workload(_Net(op, x, torch.tensor(shift)), (x,)), learning_rate=0.1)
    recorder = _Recorder()
    runtime.around = lambda _: recorder
    step = runtime.step(0, mode=mode)
    gradients = {name: spoil(array).astype(numpy.float32) for name, array in step.gradients.items()}
    record = StepRecord(step.loss, gradients, runtime.state(), 0.001)
    trace = Trace(steps=(record,), instructions=9)
    instructions = tuple(
        Instruction(r.instruction, r.op, source=Source(module="op")) for r in recorder.records
    )

    def oracle():
        return Oracle(Workload(_Net(op, x), (x,)), learning_rate=0.1)

    def stream(request, take):
        assert request.dump_only == tuple(i.index for i in instructions)
        for entry in recorder.records:
            take(entry)
        return trace

    first = compare(trace, oracle(), None)
    again = explain_by_ties(
        lambda _: trace,
        TrainRequest(program="p", batches=(), steps=1),
        SimpleNamespace(instructions=instructions),
        oracle,
        trace,
        first,
        order=(),
        prefix="",
        stream=stream,
    )
    return first, again


_ROW = [[1.0, -1.0, LITTLE / 2, 0.5], [2.0, -0.25, 1.5, -LITTLE / 2]]
_BOTH_ROWS = [[0.0, 0.0, -LITTLE, 0.0], [0.0, 0.0, 0.0, LITTLE]]
_TIED = [[2.0, 1.0, 2.0 + LITTLE, 0.5], [-1.0, 2.5, 0.25, 3.0]]
_TIED_SHIFT = [[3 * LITTLE, 0.0, 0.0, 0.0], [0.0] * 4]
_SIX = [[6.0 + 2 * LITTLE, 1.0, -1.0, LITTLE / 2], [7.0, 3.0, 6.0 - 2 * LITTLE, 0.5]]
_SIX_SHIFT = [[-5 * LITTLE, 0.0, 0.0, -LITTLE], [0.0, 0.0, 5 * LITTLE, 0.0]]
_F = nn.functional
_KINKED = "a tie, no error: of {n} entries of {op} (op) rounding decides on which side of the "
_PICKED = "a tie, no error: in {n} {places} of {op} (op) rounding decides between values that are "


def _plane(op):
    return lambda x: op(x.reshape(1, 1, 2, 4))


CASES = {
    "relu": (torch.relu, _ROW, _BOTH_ROWS, _KINKED.format(n=2, op="relu")),
    "relu_": (
        lambda x: torch.relu_(x * 1.0), _ROW, _BOTH_ROWS, _KINKED.format(n=2, op="relu")
    ),
    "abs": (torch.abs, _ROW, _BOTH_ROWS, _KINKED.format(n=2, op="abs")),
    "leaky_relu": (_F.leaky_relu, _ROW, _BOTH_ROWS, _KINKED.format(n=2, op="leaky_relu")),
    "relu6": (_F.relu6, _SIX, _SIX_SHIFT, _KINKED.format(n=3, op="hardtanh")),
    "relu6_": (
        lambda x: _F.relu6(x * 1.0, inplace=True), _SIX, _SIX_SHIFT,
        _KINKED.format(n=3, op="hardtanh"),
    ),
    "max": (
        lambda x: x.max(1)[0], _TIED, _TIED_SHIFT, _PICKED.format(n=1, places="places", op="max")
    ),
    "min": (
        lambda x: (-x).min(1)[0], _TIED, _TIED_SHIFT,
        _PICKED.format(n=1, places="places", op="min"),
    ),
    "topk": (
        lambda x: x.topk(2, 1)[0], _TIED, _TIED_SHIFT,
        _PICKED.format(n=2, places="places", op="topk"),
    ),
    "sort": (
        lambda x: x.sort(1)[0], _TIED, _TIED_SHIFT,
        _PICKED.format(n=2, places="places", op="sort"),
    ),
    "amax": (
        lambda x: x.amax(1), _TIED, _TIED_SHIFT, _PICKED.format(n=1, places="places", op="amax")
    ),
    "whole max": (
        lambda x: x[:1].max(), _TIED, _TIED_SHIFT, _PICKED.format(n=1, places="places", op="max")
    ),
    "max_pool2d": (
        _plane(lambda x: _F.max_pool2d(x, (1, 4))), _TIED, _TIED_SHIFT,
        _PICKED.format(n=1, places="windows", op="max pools"),
    ),
    "adaptive_max_pool2d": (
        _plane(lambda x: _F.adaptive_max_pool2d(x, (2, 1))), _TIED, _TIED_SHIFT,
        _PICKED.format(n=1, places="windows", op="max pools"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_rounding_decides_is_no_error(name):
    op, x, shift, told = CASES[name]
    first, again = _explained(op, x, shift)
    # Noise may be as wide as the jump: it is looked at all the same.
    assert first.first_locked is not None or max(first.worst.values()) > 0.1
    assert again.first_locked is None
    assert max(again.worst.values()) < 1e-5
    assert (again.by_choice, again.other_rule) == (True, False)
    (note,) = again.notes
    assert note.startswith(told)


@pytest.mark.parametrize("name", CASES)
def test_a_decision_at_no_tie_stays_an_error(name):
    """The same, but one entry is decided otherwise that is far from any tie."""
    op, x, shift, _ = CASES[name]
    far = torch.tensor(shift)
    far[1] += torch.tensor([-2.5, 2.5, -2.5, 2.5])
    first, again = _explained(op, x, far.tolist())
    if name == "whole max":
        assert again.first_locked is None  # it never looked at that row
        return
    assert again is first
    assert again.first_locked is not None


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_gradient_beside_a_tie_stays_an_error(name):
    op, x, shift, _ = CASES[name]
    first, again = _explained(op, x, shift, spoil=lambda gradient: gradient * 1.001)
    assert again is first
    if again.first_locked is None:  # the jump at the tie is wider than that
        assert again.notes[-1].startswith(
            "ties do not explain a difference that the tolerance allows for their sake: with the "
            "runtime's choices, gradient of bias at step 0: "
        )


def test_another_of_equal_values_is_another_rule():
    """The sum of the row decides nothing: only which of two equal entries has the gradient."""
    x = [[2.0, 1.0, 2.0, 0.5], [-1.0, 2.5, 0.25, 3.0]]
    _, again = _explained(lambda x: x.max(1)[0], x, [[0.0, 0.0, LITTLE, 0.0], [0.0] * 4])
    assert (again.first_locked, again.by_choice, again.other_rule) == (None, True, True)
    assert again.notes == [
        "RULE CHANGE: max of the runtime (op) take another of equal values in 1 places; with the "
        "runtime's choices eager agrees, so this is no error"
    ]


@pytest.mark.parametrize(
    ("slope", "told"),
    [(1.0, "lets the gradient of relu through at zero"), (0.5, "halves the gradient of relu at")],
)
def test_another_slope_at_zero_is_another_rule(slope, told):
    x = [[1.0, -1.0, 0.0, 0.5], [2.0, -0.25, 0.0, -3.0]]
    first, again = _explained(torch.relu, x, mode=at_zero_mode(slope, []))
    assert first.first_locked is not None
    assert again.first_locked is None
    assert again.other_rule
    assert again.notes[0].startswith(f"RULE CHANGE: the program {told}")


def test_a_model_that_bears_no_watching_is_told():
    def op(x):
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        if type(_get_current_dispatch_mode()).__name__ == "Watch":
            raise RuntimeError("no modes, please\nnone at all")
        return torch.relu(x)

    first, again = _explained(op, _ROW, _BOTH_ROWS)
    assert again is first
    assert again.notes[-1] == (
        "whether ties explain the difference is NOT CHECKED: RuntimeError: no modes, please"
    )


def test_a_slope_beside_zero_is_an_error():
    """Passing the gradient of what is below zero is right nowhere."""

    def spoil(gradient):
        gradient = gradient.copy()
        gradient[0, 1] = 2.0
        return gradient

    x = [[1.0, -1e-5, 0.0, 0.5], [2.0, -0.25, 0.0, -3.0]]
    first, again = _explained(torch.relu, x, mode=at_zero_mode(1.0, []), spoil=spoil)
    assert again is first
    assert again.first_locked is not None


def _picks(name, source, made, native, **given):
    values = torch.gather(source, given.get("dim", -1), native)
    bounds = SimpleNamespace(
        replay=SimpleNamespace(given={"self": source, **given}),
        name=name,
        native=[values, native],
    )
    bad = wrong_picks(bounds, made, [values, made])
    return [] if bad is None else torch.nonzero(bad).flatten().tolist()


def test_a_stable_sort_leaves_no_choice():
    source = torch.tensor([1.0, 3.0, 1.0, 2.0])
    order, other = torch.tensor([0, 2, 3, 1]), torch.tensor([2, 0, 3, 1])
    assert _picks("sort", source, other, order, dim=0) == []
    assert _picks("sort", source, other, order, dim=0, stable=True) == [0, 1]
    assert _picks("sort", source, torch.tensor([2, 2, 3, 1]), order, dim=0) == [1]


def test_a_scan_picks_nothing_behind_itself():
    source = torch.tensor([3.0, 1.0, 3.0, 2.0])
    last = torch.tensor([0, 0, 2, 2])
    assert _picks("cummax", source, torch.tensor([0, 0, 0, 0]), last, dim=0) == []
    assert _picks("cummax", source, torch.tensor([2, 0, 2, 2]), last, dim=0) == [0]


def test_windows_of_adaptive_pools():
    torch.manual_seed(0)
    source = torch.randn(1, 2, 5, 7)
    values, indices = _F.adaptive_max_pool2d(source, (3, 2), return_indices=True)

    def wrong(made):
        given = {"self": source, "output_size": [3, 2]}
        bounds = SimpleNamespace(
            replay=SimpleNamespace(given=given), name="adaptive_max_pool2d", native=[]
        )
        flat = torch.gather(source.flatten(-2), -1, made.flatten(-2)).reshape(values.shape)
        return wrong_picks(bounds, made, [flat, made])

    assert wrong(indices) is None
    other = indices.clone()
    other[0, 1, 2, 0] = 4  # the first row, the last window
    assert torch.nonzero(wrong(other)).tolist() == [[0, 1, 2, 0]]
