"""Graphs of hand-made calls for the rules on kernels."""

from __future__ import annotations

from typing import Any

from graphcheck.graph.types import JointGraph, OpCall, Source, TensorFact
from graphcheck.opset.load import load
from graphcheck.rules.interface import Context, rule_by_code
from graphcheck.rules.types import Finding


def tensor(*shape: int, dtype: str = "float32", order: tuple[int, ...] | None = None) -> TensorFact:
    order = tuple(range(len(shape))) if order is None else order
    strides = [0] * len(shape)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(1, shape[dim])
    return TensorFact(dtype, shape, tuple(strides), order)


X = tensor(2, 3, 4, 5)
CL = tensor(2, 3, 4, 5, order=(0, 2, 3, 1))


def call(
    op: str,
    out: str | None,
    *outputs: TensorFact,
    overload: str = "default",
    core: bool = True,
    backward: bool = False,
    **arguments: Any,
) -> OpCall:
    return OpCall(
        index=0,
        node=op.replace(".", "_"),
        op=op,
        overload=overload,
        arguments=arguments,
        outputs=outputs or (X,),
        source=Source(module="net.layer", file="model.py", line=7),
        backward=backward,
        gradients=("net.conv.weight",),
        is_core_aten=core,
        out_variant=out,
    )


def graph(*calls: OpCall) -> JointGraph:
    return JointGraph(calls=calls, parameters=(), buffers=(), inputs=(), loss=None)


def context(**changes: Any) -> Context:
    return Context(opset=load("1.5.1"), **changes)


def findings(code: str, *calls: OpCall, given: Context | None = None) -> list[Finding]:
    rule = rule_by_code(code)
    assert rule is not None
    return list(rule.check(graph(*calls), given or context()))
