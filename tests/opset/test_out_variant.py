"""The kernel an op is lowered to, found by schema; compared with ExecuTorch's own answer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from graphcheck.opset.out_variant import is_core, out_variant, refused_by_ir_check  # noqa: E402

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op", "kernel"),
    [
        (aten.add.Tensor, "aten::add.out"),
        (aten.sum.dim_IntList, "aten::sum.IntList_out"),
        (aten.max.dim, "aten::max.dim_max"),
        (aten.full_like.default, "aten::full_like.out"),
        (aten.full.default, "aten::full.out"),
        (aten.arange.start_step, "aten::arange.start_out"),
        (
            aten.max_pool2d_with_indices_backward.default,
            "aten::max_pool2d_with_indices_backward.grad_input",
        ),
        (aten.permute.default, "aten::permute_copy.out"),
        (aten.slice.Tensor, "aten::slice_copy.Tensor_out"),
        (aten.t.default, "aten::t_copy.out"),
        (aten.split_with_sizes.default, "aten::split_with_sizes_copy.out"),
        (aten.add.out, "aten::add.out"),
        (aten._native_batch_norm_legit_functional.default, None),
        (aten.bernoulli.p, None),
        (aten._scaled_dot_product_flash_attention_for_cpu_backward.default, None),
        (aten.add_.Tensor, None),
        (aten.chunk.default, None),
    ],
    ids=str,
)
def test_out_variant(op: object, kernel: str | None) -> None:
    assert out_variant(op) == kernel


def test_is_core() -> None:
    assert is_core(aten.add.Tensor)
    assert is_core(aten.permute_copy.default)
    assert not is_core(aten._native_batch_norm_legit_functional.default)
    assert not is_core(aten.unfold.default)


def test_refused_by_the_ir_check() -> None:
    assert refused_by_ir_check("aten::masked_select", False)
    assert not refused_by_ir_check("aten::add.Tensor", True)
    # Exceptions of the check, and ops of other namespaces.
    assert not refused_by_ir_check("aten::full_like", False)
    assert not refused_by_ir_check("mine::op", False)


def test_agrees_with_executorch_on_every_functional_op() -> None:
    convert = pytest.importorskip("executorch.exir.operator.convert")
    from torchgen.model import SchemaKind

    compared = 0
    names = {s.name for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")}
    for name in sorted(names):
        packet = getattr(aten, name.removeprefix("aten::"))
        for overload in packet.overloads():
            op = getattr(packet, overload)
            schema = convert._get_overload_schema(op)
            if op.is_view or schema is None or schema.kind() is not SchemaKind.functional:
                continue
            try:
                found = convert.to_out_variant(op)[0]._schema
                expected = f"{found.name}.{found.overload_name}".rstrip(".")
            except RuntimeError:
                expected = None
            except AssertionError:
                continue  # its own bookkeeping stumbles over overloads of equal arguments
            if expected is not None or out_variant(op) is not None:
                compared += 1
                assert out_variant(op) == expected, op
    assert compared > 800


def test_the_ir_exceptions_are_those_of_executorch() -> None:
    verifier = pytest.importorskip("executorch.exir.verification.verifier")
    from graphcheck.opset.out_variant import _IR_EXCEPTIONS

    check = verifier.EXIRATenDialectVerifier()
    excepted = {
        op.name() for op in check._get_core_aten_ops_exception_list() if op.namespace == "aten"
    }
    assert excepted | {"aten::_assert_tensor_metadata"} == _IR_EXCEPTIONS
