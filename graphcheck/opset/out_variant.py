"""Which kernel an ATen op is lowered to: its out variant, found by comparing schemas.

ExecuTorch's kernels are out variants (`aten::add.out`). Lowering pairs a functional overload with
the out overload of the same op that takes the same arguments, the out arguments aside; factory ops
lose dtype, layout, device and pin_memory, which the out tensor carries. The pairing is done here
on torch's own schemas, so that it needs no import of `executorch.exir` (7 s).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

__all__ = ["is_core", "out_variant", "refused_by_ir_check"]

_TENSOR_OPTIONS = ("dtype", "layout", "device", "pin_memory")

# What to_edge's verifier lets pass although it is not tagged core (exir/verification/verifier.py).
_IR_EXCEPTIONS = frozenset(
    [
        "aten::mkldnn_rnn_layer",
        "aten::_upsample_bilinear2d_aa",
        "aten::quantize_per_tensor",
        "aten::dequantize.self",
        "aten::max",
        "aten::min",
        "aten::full_like",
        "aten::sym_stride.int",
        "aten::sym_size.int",
        "aten::sym_numel",
        "aten::_local_scalar_dense",
        "aten::sym_constrain_range_for_size",
        "aten::sym_constrain_range",
        "aten::_assert_scalar",
        "aten::_assert_async.msg",
        "aten::scalar_tensor",
        # Erased before the check.
        "aten::_assert_tensor_metadata",
    ]
)


def _arguments(schema: Any) -> tuple[tuple[tuple[Any, ...], ...], bool]:
    """The arguments that have to agree, and whether the schema is an out variant."""
    given = list(schema.arguments)
    is_out = any(argument.is_out for argument in given)
    if is_out:
        given = [argument for argument in given if not argument.is_out]
    names = [argument.name for argument in given if argument.kwarg_only]
    if set(_TENSOR_OPTIONS) <= set(names):
        given = [a for a in given if not (a.kwarg_only and a.name in _TENSOR_OPTIONS)]
    key = tuple(
        (a.name, str(a.real_type), repr(a.default_value), bool(a.kwarg_only)) for a in given
    )
    return key, is_out


def _copy_of(view: Any) -> Any:
    """The overload that makes a copy of what `view` shows, None if there is none."""
    import torch

    name = view._schema.name.partition("::")[2]
    packet = getattr(getattr(torch.ops, view.namespace), f"{name}_copy", None)
    return getattr(packet, view._overloadname, None)


@lru_cache(maxsize=4096)
def _out_variants(name: str) -> dict[tuple[tuple[Any, ...], ...], str]:
    """Registry names of the out variants of `aten::name`, by their arguments."""
    import torch

    found: dict[tuple[tuple[Any, ...], ...], str] = {}
    for schema in torch._C._jit_get_schemas_for_operator(name):
        key, is_out = _arguments(schema)
        if is_out:
            overload = schema.overload_name
            found.setdefault(key, f"{name}.{overload}" if overload else name)
    return found


def out_variant(op: Any) -> str | None:
    """Registry name of the out variant of a `torch._ops.OpOverload`, None if there is none.

    A view stands for its copy, as in lowering: `aten.permute` gives `aten::permute_copy.out`.
    """
    if op.is_view:
        op = _copy_of(op)
        if op is None:
            return None
    schema = op._schema
    key, is_out = _arguments(schema)
    if is_out:
        return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)
    if any(
        argument.alias_info is not None and argument.alias_info.is_write
        for argument in schema.arguments
    ):
        return None
    return _out_variants(schema.name).get(key)


def is_core(op: Any) -> bool:
    """Whether the op is tagged core ATen, or is a view copy, which the IR check takes as core."""
    import torch

    return torch.Tag.core in op.tags or torch.Tag.view_copy in op.tags


def refused_by_ir_check(name: str, is_core_aten: bool) -> bool:
    """Whether `to_edge` refuses the op `aten::name.overload` while its IR check is on."""
    return name.startswith("aten::") and not is_core_aten and name not in _IR_EXCEPTIONS
