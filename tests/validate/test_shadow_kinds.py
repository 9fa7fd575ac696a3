"""Kinds of instructions that shadow execution once took for wrong, and faults of the same kinds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy
import pytest
import torch

from graphcheck.graph.types import Source
from graphcheck.runtime.lower import Instruction
from graphcheck.runtime.types import InstructionDump, TensorData
from graphcheck.validate import shadow as module


def _data(array):
    return TensorData(str(array.dtype), array)


@pytest.fixture
def judged(monkeypatch):
    """What is found of one instruction: of op `target`, on an input, with its results."""

    def judge(target, source, arguments, results, loss="float32"):
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        node = graph.call_function(target, (x, *arguments))
        node.meta["val"] = tuple(torch.from_numpy(result) for result in results)
        # The value of the first instruction stands for the loss.
        made = graph.call_function(torch.ops.aten.mean.default, (x,))
        made.meta["val"] = torch.zeros((), dtype=getattr(torch, loss))
        monkeypatch.setattr(module, "kernel_nodes", lambda _: {3: node, 4: made})
        monkeypatch.setattr(module, "loss_instruction", lambda _: 4)
        name = f"aten::{target._schema.name.partition('::')[2]}.{target._schema.overload_name}"
        known = Instruction(3, name, source=Source(module="op"))
        lowered = SimpleNamespace(emitted=None, instructions=(known,))
        record = InstructionDump(
            3, name, (_data(source), *arguments), tuple(_data(result) for result in results)
        )
        return module.shadow(lowered, [record])

    return judge


def test_values_that_are_integers_are_no_indices(judged):
    """A sort of integer keys: the first result holds values."""
    source = numpy.array([[9, 4, 7, 1]])
    values, indices = numpy.array([[1, 4, 7, 9]]), numpy.array([[3, 1, 2, 0]])
    topk = torch.ops.aten.topk.values
    arguments = (4, 1, False, True)
    assert judged(topk, source, arguments, (values, indices)).wrong == []
    (wrong,) = judged(topk, source, arguments, (values, indices[:, ::-1].copy())).wrong
    assert (wrong.output, wrong.count) == (1, 4)
    (wrong,) = judged(topk, source, arguments, (values + 1, indices)).wrong
    assert wrong.output == 0
    tied = numpy.array([[4, 4, 7, 1]])
    values, other = numpy.array([[1, 4, 4, 7]]), numpy.array([[3, 1, 0, 2]])
    found = judged(topk, tied, arguments, (values, other))
    assert found.wrong == []


_SUM = torch.ops.aten.sum.IntList_out
_TERMS = numpy.random.default_rng(0).random((3, 40))


@pytest.mark.parametrize(
    ("loss", "results", "coarse", "wrong"),
    [
        ("float32", _TERMS.sum(1), 0, 0),
        ("float32", _TERMS.sum(1).astype(numpy.float32).astype(float), 1, 0),
        ("bfloat16", _TERMS.sum(1).astype(numpy.float32).astype(float), 1, 0),
        ("float64", _TERMS.sum(1).astype(numpy.float32).astype(float), 0, 1),
        ("float32", _TERMS.sum(1) * (1 + 1e-5), 0, 1),
        ("float32", _TERMS.sum(1).astype(numpy.float16).astype(float), 0, 1),
    ],
)
def test_float64_with_the_digits_of_float32(judged, loss, results, coarse, wrong):
    found = judged(_SUM, _TERMS, ([1],), (results,), loss)
    assert (len(found.coarse), len(found.wrong)) == (coarse, wrong)
    assert found.checked == 1


def test_float32_is_never_coarse(judged):
    terms = _TERMS.astype(numpy.float32)
    rough = terms.sum(1).astype(numpy.float16).astype(numpy.float32)
    found = judged(_SUM, terms, ([1],), (rough,))
    assert (found.coarse, len(found.wrong)) == ([], 1)
