"""Support of an op call: what stops it, and what must stay silent."""

from __future__ import annotations

import pytest
from op_calls import channels_last, op_call, tensor

from graphcheck.opset.load import extend, load
from graphcheck.opset.support import kernel_of, schema_name, support
from graphcheck.opset.types import Grade, Opset


@pytest.fixture(scope="module")
def opset() -> Opset:
    return load("1.5.1")


def test_a_registered_kernel(opset: Opset) -> None:
    found = support(op_call("aten.relu", out="aten::relu.out", self=tensor(2, 3)), opset)
    assert (found.grade, found.kernel) == (Grade.REGISTERED, "aten::relu.out")
    assert found.reason == "executorch 1.5.1 has the kernel aten::relu.out"


def test_no_kernel(opset: Opset) -> None:
    call = op_call("aten.avg_pool2d_backward", out="aten::avg_pool2d_backward.grad_input")
    found = support(call, opset)
    assert found.grade is Grade.MISSING
    assert found.reason == "executorch 1.5.1 has no kernel aten::avg_pool2d_backward.grad_input"


def test_no_kernel_and_not_core(opset: Opset) -> None:
    call = op_call("aten.empty_permuted", out="aten::empty_permuted.out", core=False)
    assert support(call, opset).grade is Grade.NOT_CORE


def test_no_out_variant(opset: Opset) -> None:
    call = op_call("aten._native_batch_norm_legit_functional", out=None, core=False)
    assert support(call, opset).grade is Grade.NO_OUT_VARIANT


def test_not_core_but_registered_is_supported(opset: Opset) -> None:
    call = op_call("aten.masked_select", out="aten::masked_select.out", core=False)
    assert support(call, opset).grade is Grade.REGISTERED


@pytest.mark.parametrize(
    ("op", "overload"),
    [
        ("aten.view", "default"),
        ("aten.sym_size", "int"),
        ("aten._assert_scalar", "default"),
        ("aten._assert_tensor_metadata", "default"),
        ("aten._local_scalar_dense", "default"),
    ],
)
def test_what_becomes_no_kernel_needs_none(opset: Opset, op: str, overload: str) -> None:
    found = support(op_call(op, overload, out=None, core=False, self=tensor(2, 3)), opset)
    assert found.grade is Grade.REGISTERED
    assert found.kernel == ""


def test_lowering_changes_the_kernel(opset: Opset) -> None:
    copy = op_call("aten._to_copy", out="aten::_to_copy.out", self=tensor(2, 3))
    assert kernel_of(copy, opset) == "dim_order_ops::_to_dim_order_copy.out"
    clone = op_call("aten.clone", out="aten::clone.out", self=tensor(2, 3))
    assert kernel_of(clone, opset) == "dim_order_ops::_clone_dim_order.out"
    assert support(clone, opset).grade is Grade.REGISTERED


def test_a_kernel_of_the_users_own_library_is_not_checked(opset: Opset) -> None:
    call = op_call("aten.avg_pool2d_backward", out="aten::avg_pool2d_backward.grad_input")
    own = extend(opset, ["aten::avg_pool2d_backward.grad_input", "aten::constant_pad_nd.out"])
    assert support(call, own).grade is Grade.NOT_CHECKED
    # What the stock kernel refuses says nothing of the user's.
    pad = op_call("aten.constant_pad_nd", out="aten::constant_pad_nd.out", pad=[-1, 0])
    assert support(pad, opset).grade is Grade.REFUSED
    assert support(pad, own).grade is Grade.NOT_CHECKED


def test_refused_and_wrong_come_with_their_limit(opset: Opset) -> None:
    x = channels_last(2, 3, 4, 5)
    mixed = op_call("aten.relu", out="aten::relu.out", self=x, outputs=(tensor(2, 3, 4, 5),))
    found = support(mixed, opset)
    assert found.grade is Grade.REFUSED
    assert found.limit is not None
    assert found.limit.id == "dim-order-mixed"
    ignored = op_call("aten.topk", out="aten::topk.values", self=x, outputs=(x, x))
    assert support(ignored, opset).grade is Grade.WRONG


def test_a_limit_of_an_op_without_kernel(opset: Opset) -> None:
    flat = op_call("aten.view", out="aten::view_copy.out", self=channels_last(2, 3, 4, 5))
    assert support(flat, opset).grade is Grade.WRONG
    flat = op_call("aten.view", out="aten::view_copy.out", self=tensor(2, 3, 4, 5))
    assert support(flat, opset).grade is Grade.REGISTERED


def test_schema_name() -> None:
    assert schema_name(op_call("aten.add", "Tensor", out=None)) == "aten::add.Tensor"
    assert schema_name(op_call("aten.relu", out=None)) == "aten::relu"
