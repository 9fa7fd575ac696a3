"""Names of the arguments of kernels, for programs that are read without torch.

A program holds a kernel's name and its arguments in order; which is which is in the schema of the
op. `signatures.txt` beside this file has a line for each kernel that a program can call: its name,
the op of the joint graph that it is lowered from, and the names of its arguments, an out argument
with `!`. `generate` makes it anew from the installed torch; a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["Signature", "generate", "signature_of"]

_FILE = Path(__file__).with_name("signatures.txt")
_DIM_ORDER = {
    "dim_order_ops::_clone_dim_order.out": (
        "aten.clone.default",
        ("self", "non_blocking", "dim_order", "!out"),
    ),
    "dim_order_ops::_empty_dim_order.out": (
        "aten.empty.memory_format",
        ("size", "dim_order", "!out"),
    ),
    "dim_order_ops::_to_dim_order_copy.out": (
        "aten._to_copy.default",
        ("self", "non_blocking", "dim_order", "!out"),
    ),
}
_NUMBERS = (
    "aten::sym_size.int",
    "aten::sym_stride.int",
    "aten::sym_numel",
    "aten::_local_scalar_dense",
)


@dataclass(frozen=True)
class Signature:
    """A kernel: the op it stands for (`aten.add`, `Tensor`) and its arguments in order."""

    op: str
    overload: str
    arguments: tuple[str, ...]
    outs: tuple[str, ...]


def signature_of(kernel: str) -> Signature | None:
    """The signature of `aten::add.out`, None for a kernel that torch does not know."""
    line = _lines().get(kernel)
    if line is None:
        return None
    functional, _, names = line.partition(" ")
    op, _, overload = functional.rpartition(".")
    given = names.split(",") if names else []
    return Signature(
        op,
        overload,
        tuple(name for name in given if not name.startswith("!")),
        tuple(name[1:] for name in given if name.startswith("!")),
    )


@lru_cache(maxsize=1)
def _lines() -> Mapping[str, str]:
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    return {
        kernel: rest
        for kernel, _, rest in (line.partition(" ") for line in lines if not line.startswith("#"))
    }


def generate() -> str:
    """The text of `signatures.txt` by the schemas of the installed torch."""
    rows = {
        **_from_torch(),
        **{kernel: (op, names) for kernel, (op, names) in _DIM_ORDER.items()},
    }
    lines = [f"{kernel} {op} {','.join(names)}".rstrip() for kernel, (op, names) in rows.items()]
    head = "# Made by graphcheck.graph.signatures.generate; do not edit."
    return "\n".join([head, *sorted(lines)]) + "\n"


def _from_torch() -> dict[str, tuple[str, tuple[str, ...]]]:
    import torch

    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")]
    functional = _functional_ops(schemas)
    rows = {}
    for schema in schemas:
        name = f"{schema.name}.{schema.overload_name}".rstrip(".")
        has_out = any(argument.is_out for argument in schema.arguments)
        in_place = schema.name.endswith("_") and not schema.name.endswith("__")
        if not has_out and not in_place and name not in _NUMBERS:
            continue
        names = tuple(f"!{a.name}" if a.is_out else str(a.name) for a in schema.arguments)
        own = f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"
        rows[name] = (functional.get(name, own), names)
    return rows


def _functional_ops(schemas: list[Any]) -> dict[str, str]:
    """The functional op by its out variant; a view before the copy that lowering makes of it."""
    import torch

    from graphcheck.opset.out_variant import out_variant

    found: dict[str, tuple[bool, str]] = {}
    for schema in schemas:
        packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
        op = getattr(packet, schema.overload_name or "default", None)
        if op is None or any(argument.is_out for argument in schema.arguments):
            continue
        kernel = out_variant(op)
        if kernel is None:
            continue
        name = f"{op.namespace}.{op.overloadpacket.__name__}.{op._overloadname}"
        if kernel not in found or (op.is_view, name) > found[kernel]:
            found[kernel] = (bool(op.is_view), name)
    return {kernel: name for kernel, (_, name) in found.items()}
