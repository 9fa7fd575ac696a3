"""Powers of two."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def by_pow(x: Any) -> Any:
    """2^x in the dtype of x, the default one for integers."""
    import torch

    wide = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    return torch.ops.aten.pow.Scalar(2.0, wide)


REWRITES = (
    Rewrite(
        name="exp2_pow",
        op="aten.exp2.default",
        formula="2^x as pow(2, x)",
        source="definition",
        decompose=by_pow,
    ),
)
