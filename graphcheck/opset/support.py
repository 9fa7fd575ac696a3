"""Whether a runtime can run an op call: is there a kernel, and does it take these arguments."""

from __future__ import annotations

from dataclasses import replace

from graphcheck.graph.types import OpCall, TensorFact
from graphcheck.opset.conditions import matches
from graphcheck.opset.out_variant import refused_by_ir_check
from graphcheck.opset.registry import lowering_for
from graphcheck.opset.types import Grade, KernelLibrary, Opset, Support

__all__ = ["kernel_key", "kernel_of", "library_of", "schema_name", "support"]

_CODES = {
    "uint8": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float16": 5,
    "float32": 6,
    "float64": 7,
    "bool": 11,
    "bfloat16": 15,
}
"""ExecuTorch's numbers of dtypes."""
_NOTHING = TensorFact("uint8", (0,), (1,), (0,))


def schema_name(call: OpCall) -> str:
    """`aten::add.Tensor` of `aten.add.Tensor`, `aten::relu` of `aten.relu.default`."""
    namespace, _, name = call.op.partition(".")
    overload = "" if call.overload in ("", "default") else f".{call.overload}"
    return f"{namespace}::{name}{overload}"


def kernel_of(call: OpCall, opset: Opset) -> str | None:
    """Registry name of the kernel that runs the call after lowering, None if it has none."""
    lowering = lowering_for(opset.runtime, opset.version)
    return lowering.kernels.get(call.qualified, call.out_variant)


def support(call: OpCall, opset: Opset) -> Support:
    """How far `opset` supports the call, with the reason in words.

    The first thing that stops it wins: no out variant, no kernel, an argument that the kernel
    refuses. A kernel of the user's that is known by name only is `NOT_CHECKED`. Where a kernel
    library runs the call, `library` says which, and the rest what the runtime's own would do.
    """
    found = _support(call, opset)
    library = library_of(call, found.kernel, opset)
    return found if library is None else replace(found, library=library)


def library_of(call: OpCall, kernel: str, opset: Opset) -> KernelLibrary | None:
    """The kernel library that runs the call, None if the runtime's own kernel does."""
    if not kernel:
        return None
    for library in opset.libraries:
        keys = library.kernels.get(kernel)
        if keys is not None and ("" in keys or kernel_key(call) in keys):
            return library
    return None


def kernel_key(call: OpCall) -> str | None:
    """The key under which the runtime looks for a kernel for these dtypes and dim orders.

    Tensors in the order of the schema, then the outputs; a single output comes twice, as argument
    and as result. Tensors in lists have no part in it. None where a dim order is undecided.
    """
    tensors = [value for value in call.arguments.values() if isinstance(value, TensorFact)]
    outputs = list(call.outputs)
    mask = call.arguments.get("output_mask")
    if isinstance(mask, (list, tuple)) and len(outputs) == sum(map(bool, mask)):
        # For a result that is not wanted, lowering puts an empty tensor of bytes.
        wanted = iter(outputs)
        outputs = [next(wanted) if keep else _NOTHING for keep in mask]
    parts = []
    for fact in (*tensors, *outputs, *(outputs if len(outputs) == 1 else ())):
        code = _CODES.get(fact.dtype)
        if code is None or len(fact.dim_order) != fact.rank:
            return None
        parts.append(f"{code};{','.join(map(str, fact.dim_order))}")
    return "v1/" + "|".join(parts)


def _support(call: OpCall, opset: Opset) -> Support:
    lowering = lowering_for(opset.runtime, opset.version)
    exempt = lowering.exempt.get(call.qualified)
    if exempt is not None:
        return _limited(call, opset, call.qualified) or Support(Grade.REGISTERED, exempt)
    kernel = lowering.kernels.get(call.qualified, call.out_variant)
    name = schema_name(call)
    refused = refused_by_ir_check(name, call.is_core_aten)
    runtime = f"{opset.runtime} {opset.version}"
    if kernel is None:
        reason = f"{call.qualified} has no out variant"
        return Support(Grade.NO_OUT_VARIANT, reason)
    if kernel in opset.extra:
        return Support(Grade.NOT_CHECKED, f"{kernel} is in your own kernel library", kernel=kernel)
    if kernel not in opset.kernels:
        grade = Grade.NOT_CORE if refused else Grade.MISSING
        return Support(grade, f"{runtime} has no kernel {kernel}", kernel=kernel)
    limited = _limited(call, opset, kernel)
    if limited is not None:
        return limited
    if kernel in opset.measured:
        return Support(Grade.MEASURED, f"{kernel} was measured in parity", kernel=kernel)
    return Support(Grade.REGISTERED, f"{runtime} has the kernel {kernel}", kernel=kernel)


def _limited(call: OpCall, opset: Opset, kernel: str) -> Support | None:
    limits = opset.limits_by_kernel
    for limit in (*limits.get(kernel, ()), *limits.get("*", ())):
        if matches(limit.when, call):
            grade = Grade.WRONG if limit.effect == "wrong" else Grade.REFUSED
            return Support(grade, limit.reason, limit, kernel if "::" in kernel else "")
    return None
