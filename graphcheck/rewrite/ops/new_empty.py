"""Tensors whose content does not matter, as zeros."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.parts import zeros

__all__ = ["REWRITES"]


def strided(x: Any, size: Any, stride: Any, *, dtype: Any = None, **options: Any) -> Any:
    """The layout is restored by whoever applies the rewrite."""
    return zeros(size, x.dtype if dtype is None else dtype)


def permuted(size: Any, physical_layout: Any, *, dtype: Any = None, **options: Any) -> Any:
    """The layout is restored by whoever applies the rewrite."""
    import torch

    return zeros(size, torch.get_default_dtype() if dtype is None else dtype)


REWRITES = (
    Rewrite(
        name="new_empty_strided_zeros",
        op="aten.new_empty_strided.default",
        formula="full(size, 0)",
        source="any content is allowed; zeros make it the same each time",
        decompose=strided,
    ),
    Rewrite(
        name="empty_permuted_zeros",
        op="aten.empty_permuted.default",
        formula="full(size, 0)",
        source="any content is allowed; zeros make it the same each time",
        decompose=permuted,
    ),
)
