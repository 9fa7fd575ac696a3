"""Matrix products over a size from the data, which may be zero.

The kernels leave the result of a product over nothing as it is in memory (measured on 1.5.1), so
each side gets one more entry, which is zero.
"""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def mm(a: Any, b: Any) -> Any:
    """The product of [M, K] and [K, N]."""
    import torch

    found = _longer(a, b)
    return found if found is NotImplemented else torch.ops.aten.mm.default(*found)


def bmm(a: Any, b: Any) -> Any:
    """The products of [B, M, K] and [B, K, N]."""
    import torch

    found = _longer(a, b)
    return found if found is NotImplemented else torch.ops.aten.bmm.default(*found)


def _longer(a: Any, b: Any) -> Any:
    """Both with a zero at the end of the dim that is summed over."""
    import torch
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if not free_unbacked_symbols(a.shape[-1]) and not free_unbacked_symbols(b.shape[-2]):
        return NotImplemented
    full, cat = torch.ops.aten.full.default, torch.ops.aten.cat.default
    column = full([*a.shape[:-1], 1], 0, dtype=a.dtype)
    row = full([*b.shape[:-2], 1, b.shape[-1]], 0, dtype=b.dtype)
    return cat([a, column], a.dim() - 1), cat([b, row], b.dim() - 2)


REWRITES = tuple(
    Rewrite(
        name=f"{name}_not_empty",
        op=f"aten.{name}.default",
        formula="a b = [a, 0] [b; 0]",
        source="definition of the product",
        decompose=decompose,
        memory="a copy of both factors",
    )
    for name, decompose in (("mm", mm), ("bmm", bmm))
)
