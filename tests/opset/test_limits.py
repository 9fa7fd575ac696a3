"""Limits as shipped: each refuses what it names, and nothing beside it."""

from __future__ import annotations

from typing import Any

import pytest
from op_calls import channels_last, op_call, tensor

from graphcheck.graph.types import OpCall, TensorFact
from graphcheck.opset.format import LimitFile, read
from graphcheck.opset.load import load
from graphcheck.opset.support import support
from graphcheck.opset.types import Opset
from graphcheck.resources import opsets_dir

X = tensor(2, 3, 4, 5)
CL = channels_last(2, 3, 4, 5)
W = tensor(4, 3, 2, 2)
Y = tensor(2, 4, 3, 4)


@pytest.fixture(scope="module")
def opset() -> Opset:
    return load("1.5.1")


def conv(
    x: TensorFact = X, weight: TensorFact = W, y: TensorFact = Y, transposed: bool = False
) -> OpCall:
    return op_call(
        "aten.convolution",
        out="aten::convolution.out",
        input=x,
        weight=weight,
        transposed=transposed,
        outputs=(y,),
    )


def conv_backward(
    x: TensorFact = X,
    weight: TensorFact = W,
    y: TensorFact = Y,
    transposed: bool = False,
    mask: tuple[bool, bool, bool] = (True, True, True),
    outputs: tuple[TensorFact, ...] = (),
) -> OpCall:
    return op_call(
        "aten.convolution_backward",
        out="aten::convolution_backward.out",
        grad_output=y,
        input=x,
        weight=weight,
        transposed=transposed,
        output_mask=list(mask),
        outputs=outputs or (x, weight, tensor(4)),
        backward=True,
    )


def simple(op: str, out: str, *outputs: TensorFact, overload: str = "default", **a: Any) -> OpCall:
    return op_call(op, overload, out=out, outputs=outputs, **a)


BOUND: list[tuple[OpCall, str]] = [
    (conv(tensor(1, 2, 4, 4, 4), tensor(3, 2, 2, 2, 2), tensor(1, 3, 3, 3, 3)), "convolution-rank"),
    (conv(X, channels_last(4, 3, 2, 2), channels_last(2, 4, 3, 4)), "dim-order-convolution"),
    (conv_backward(transposed=True), "convolution-backward-transposed"),
    (
        conv_backward(tensor(2, 3, 5), tensor(4, 3, 2), tensor(2, 4, 4)),
        "convolution-backward-rank",
    ),
    (
        conv_backward(CL, outputs=(X, W, tensor(4))),
        "dim-order-convolution-backward-mixed",
    ),
    (
        conv_backward(CL, mask=(False, True, True), outputs=(channels_last(4, 3, 2, 2), tensor(4))),
        "dim-order-convolution-backward-mixed",
    ),
    (
        simple("aten.constant_pad_nd", "aten::constant_pad_nd.out", X, self=X, pad=[1, -1]),
        "constant-pad-negative",
    ),
    (
        simple(
            "aten._log_softmax",
            "aten::_log_softmax.out",
            tensor(2, 3, dtype="float64"),
            self=tensor(2, 3, dtype="float64"),
            dim=1,
        ),
        "log-softmax-float64",
    ),
    (
        simple("aten.logit", "aten::logit.out", X, self=tensor(2, 3, dtype="bfloat16")),
        "logit-half",
    ),
    (
        simple("aten.add", "aten::add.Scalar_out", X, self=tensor(2, dtype="bool"), other=2),
        "add-scalar-bool",
    ),
    (simple("aten.neg", "aten::neg.out", self=tensor(*[1] * 17)), "too-many-dimensions"),
    (simple("aten.alias", "aten::alias_copy.out", X, self=CL), "dim-order-mixed"),
    (
        simple("aten.mul", "aten::mul.out", CL, overload="Tensor", self=CL, other=2.0),
        "dim-order-number",
    ),
    (
        simple("aten.add", "aten::add.out", CL, overload="Tensor", self=CL, other=tensor()),
        "dim-order-mixed",
    ),
    (
        simple(
            "aten.add",
            "aten::add.out",
            CL,
            overload="Tensor",
            self=CL,
            other=channels_last(1, 3, 1, 1),
        ),
        "dim-order-broadcast",
    ),
    (
        simple("aten.full_like", "aten::full_like.out", CL, self=CL, fill_value=1),
        "dim-order-default",
    ),
    (simple("aten.index_put", "aten::index_put.out", CL, self=CL), "dim-order-default-self"),
    (
        simple("aten.clone", "aten::clone.out", tensor(4, 3, order=(1, 0)), self=X),
        "dim-order-copy",
    ),
    (
        simple("aten.addmm", "aten::addmm.out", self=X, mat1=tensor(4, 3, order=(1, 0))),
        "dim-order-matrix",
    ),
    (
        simple("aten.mm", "aten::mm.out", self=tensor(4, 3, order=(1, 0)), mat2=tensor(3, 4)),
        "dim-order-matrix-ignored",
    ),
    (
        simple("aten.cat", "aten::cat.out", CL, tensors=[CL, CL], dim=1),
        "dim-order-positions-dim",
    ),
    (simple("aten.flip", "aten::flip.out", CL, self=CL, dims=[1]), "dim-order-positions-dims"),
    (
        simple("aten.constant_pad_nd", "aten::constant_pad_nd.out", CL, self=CL, pad=[1, 1]),
        "dim-order-positions",
    ),
    (simple("aten.topk", "aten::topk.values", CL, self=CL), "dim-order-ignored"),
    (
        simple("aten.native_layer_norm", "aten::native_layer_norm.out", CL, input=CL),
        "dim-order-layer-norm",
    ),
    (
        simple("aten._log_softmax", "aten::_log_softmax.out", CL, self=CL, dim=1),
        "dim-order-log-softmax",
    ),
    (simple("aten.exp", "aten::exp.out", X, self=CL), "dim-order-unchecked"),
    (simple("aten.copy", "aten::copy.out", X, self=X, src=CL), "dim-order-copy-source"),
    (simple("aten.view", "aten::view_copy.out", X, self=CL), "dim-order-view"),
    (
        simple("aten.prod", "aten::prod.int_out", self=tensor(4, 3, order=(1, 0))),
        "dim-order-reduction",
    ),
    (
        simple("aten._conj_physical", "aten::_conj_physical.out", self=X),
        "conj-physical-real",
    ),
    (
        simple("aten.grid_sampler_2d", "aten::grid_sampler_2d.out", CL, input=CL),
        "dim-order-grid-sampler",
    ),
    (
        conv_backward(tensor(2, 3, 4, 5, order=(1, 0, 2, 3))),
        "dim-order-convolution-backward",
    ),
]

RIGHT = [
    conv(),
    conv(tensor(2, 3, 5), tensor(4, 3, 2), tensor(2, 4, 4)),
    conv(CL, W, channels_last(2, 4, 3, 4)),
    conv(transposed=True),
    conv_backward(),
    conv_backward(CL, outputs=(CL, W, tensor(4))),
    conv_backward(mask=(False, True, False), outputs=(W,)),
    simple("aten.constant_pad_nd", "aten::constant_pad_nd.out", X, self=X, pad=[1, 0]),
    simple("aten._log_softmax", "aten::_log_softmax.out", X, self=X, dim=1),
    simple("aten._log_softmax", "aten::_log_softmax.out", CL, self=CL, dim=0),
    simple("aten._softmax", "aten::_softmax.out", X, self=X, dim=1),
    simple("aten.neg", "aten::neg.out", self=tensor(*[1] * 16)),
    simple("aten.relu", "aten::relu.out", CL, self=CL),
    simple("aten.mul", "aten::mul.out", X, overload="Tensor", self=X, other=2.0),
    simple("aten.mul", "aten::mul.Scalar_out", CL, overload="Scalar", self=CL, other=2.0),
    simple("aten.mul", "aten::mul.out", CL, overload="Tensor", self=CL, other=CL),
    simple("aten.add", "aten::add.out", X, overload="Tensor", self=X, other=tensor(5)),
    simple("aten.add", "aten::add.out", X, overload="Tensor", self=X, other=tensor()),
    simple("aten.cat", "aten::cat.out", CL, tensors=[CL, CL], dim=0),
    simple("aten.flip", "aten::flip.out", CL, self=CL, dims=[0]),
    simple("aten.sum", "aten::sum.IntList_out", tensor(2, 4, 5), overload="dim_IntList", self=CL),
    simple("aten.mean", "aten::mean.out", tensor(2, 4, 5), overload="dim", self=CL),
    simple("aten.expand", "aten::expand_copy.out", X, self=CL),
    simple("aten.mm", "aten::mm.out", self=tensor(4, 3), mat2=tensor(3, 4)),
    simple("aten.max_pool2d_with_indices", "aten::max_pool2d_with_indices.out", CL, CL, self=CL),
    simple("aten.view", "aten::view_copy.out", X, self=X),
]


@pytest.mark.parametrize(("call", "limit"), BOUND, ids=[limit for _, limit in BOUND])
def test_beyond_the_limit(opset: Opset, call: OpCall, limit: str) -> None:
    found = support(call, opset).limit
    assert found is not None
    assert found.id == limit


@pytest.mark.parametrize("call", RIGHT, ids=[call.op for call in RIGHT])
def test_within_the_limits(opset: Opset, call: OpCall) -> None:
    found = support(call, opset)
    assert found.limit is None, found


def test_every_limit_has_a_case() -> None:
    content = read(opsets_dir() / "limits" / "executorch-1.5.yaml", LimitFile)
    assert {entry.id for entry in content.limits} == {limit for _, limit in BOUND}


def test_limits_name_kernels_that_are_registered(opset: Opset) -> None:
    for limit in opset.limits:
        if "::" in limit.kernel:
            assert limit.kernel in opset.kernels, limit.id


def test_limits_name_arguments_of_the_schema(opset: Opset) -> None:
    """An argument the op does not have would make the limit dead without a word."""
    torch = pytest.importorskip("torch")
    schemas = {
        f"{s.name}.{s.overload_name}" if s.overload_name else s.name: s
        for s in torch._C._jit_get_all_schemas()
    }
    for limit in opset.limits:
        schema = schemas.get(limit.kernel)
        if schema is None:
            continue
        known = {argument.name for argument in schema.arguments}
        named = set(_arguments(limit.when))
        assert named <= known, (limit.id, limit.kernel, named - known)


def _arguments(when: Any) -> list[str]:
    names: list[str] = []
    if isinstance(when, dict):
        for key, value in when.items():
            if key == "argument":
                names.extend(value)
            elif key == "different" and isinstance(value["among"], list):
                names.extend(n for n in value["among"] if not n.startswith("out"))
            else:
                names.extend(_arguments(value))
    elif isinstance(when, list):
        for part in when:
            names.extend(_arguments(part))
    return names


def test_channels_last_programs_as_they_ran() -> None:
    """Programs lowered and run on the stock wheel with a channels-last input: what came out."""
    torch = pytest.importorskip("torch")
    from graphcheck.graph.capture import capture
    from graphcheck.workload.types import Workload

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, op: Any) -> None:
            super().__init__()
            self.op = op
            self.head = torch.nn.Linear(7, 4)

        def forward(self, x: Any) -> Any:
            return (self.head(self.op(x).reshape(-1)[:70].reshape(-1, 7)) ** 2).mean()

    ran: list[tuple[Any, set[str]]] = [
        (lambda x: x.flip(1), {"wrong"}),
        (lambda x: torch.cat([x, x], 1), {"wrong"}),
        (lambda x: torch.cat([x, x], 0), set()),
        (lambda x: torch.nn.functional.pad(x, (1, 1)), {"wrong"}),
        (lambda x: x.unsqueeze(0), {"wrong"}),
        (lambda x: x * 2, {"refused"}),
        (lambda x: x.permute(0, 2, 3, 1), {"refused"}),
        (lambda x: x.mean(1, keepdim=True) + x, {"refused"}),
        (lambda x: x.relu(), set()),
        (lambda x: torch.nn.functional.max_pool2d(x, 2, 1), set()),
    ]
    x = torch.randn(2, 3, 6, 7).contiguous(memory_format=torch.channels_last)
    opset = load("1.5.1")
    for number, (op, effects) in enumerate(ran):
        graph = capture(Workload(module=Net(op), inputs=(x,), root_type="Net"))
        found = (support(call, opset).limit for call in graph.calls)
        assert {limit.effect for limit in found if limit is not None} == effects, number
