"""Hand-made op calls: as capture makes them, without torch."""

from __future__ import annotations

from typing import Any

from graphcheck.graph.types import OpCall, Source, TensorFact


def tensor(*shape: int, dtype: str = "float32", order: tuple[int, ...] | None = None) -> TensorFact:
    """A tensor of this shape, laid out in `order` (row-major by default)."""
    order = tuple(range(len(shape))) if order is None else order
    strides = [0] * len(shape)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(1, shape[dim])
    return TensorFact(dtype, shape, tuple(strides), order)


def channels_last(*shape: int) -> TensorFact:
    return tensor(*shape, order=(0, *range(2, len(shape)), 1))


def op_call(
    op: str,
    overload: str = "default",
    *,
    out: str | None,
    outputs: tuple[TensorFact, ...] = (),
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
        outputs=outputs or (tensor(2, 3),),
        source=Source(module="net.layer"),
        backward=backward,
        is_core_aten=core,
        out_variant=out,
    )
