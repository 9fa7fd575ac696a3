"""Cumulative product, by a doubling scan."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.scans import scan

__all__ = ["REWRITES"]


def doubling(x: Any, dim: int, *, dtype: Any = None) -> Any:
    """The product of all elements up to and with each one along `dim`."""
    import torch

    if dtype is None and not x.dtype.is_floating_point:
        dtype = torch.int64
    x = x if dtype is None or dtype == x.dtype else x.to(dtype)
    if x.dim() == 0 or x.shape[dim] == 1:
        return x.clone()
    return scan([x], dim % x.dim(), [1], lambda a, b: [a[0] * b[0]])[0]


REWRITES = (
    Rewrite(
        name="cumprod_scan_joint",
        op="aten.cumprod.default",
        formula="y = x; for s = 1, 2, 4, ...: y[i] = y[i - s] y[i], with 1 before the start",
        source="Hillis and Steele, Data parallel algorithms (1986)",
        decompose=doubling,
        memory="three tensors of the size of the input per doubling, log2(n) doublings",
        remark="for the cumprod in the gradient of another op, such as prod",
    ),
    Rewrite(
        name="cumprod_scan",
        op="aten.cumprod.default",
        formula="y = x; for s = 1, 2, 4, ...: y[i] = y[i - s] y[i], with 1 before the start",
        source="Hillis and Steele, Data parallel algorithms (1986)",
        decompose=doubling,
        stage="forward",
        memory="three tensors of the size of the input per doubling, log2(n) doublings",
        remark="before differentiation: the gradient torch derives takes the maximum of booleans, "
        "which the runtime refuses",
    ),
)
