"""Backward of pairwise distances: cdist and pdist."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import number

__all__ = ["REWRITES", "cdist_backward", "pdist_backward"]


def _slopes(difference: Any, distance: Any, p: float) -> Any:
    """Derivative of the distance by the difference; 0 where the distance is 0."""
    import torch

    zero = number(0, difference)
    if p == 0:
        return difference * 0
    if p == 1:
        return torch.sign(difference)
    size = torch.abs(difference)
    if p == float("inf"):
        # The differences as large as the distance itself.
        return torch.where(size == distance, torch.sign(difference), zero)
    safe = torch.where(distance == 0, number(1, distance), distance)
    if p == 2:
        slope = difference / safe
    else:
        # Below 1 the derivative has a pole where the difference is 0; eager takes 0 there.
        base = torch.where(size == 0, number(1, size), size) if p < 2 else size
        slope = torch.sign(difference) * torch.pow(base / safe, p - 1)
    return torch.where(distance == 0, zero, slope)


def cdist_backward(grad: Any, x1: Any, x2: Any, p: float, distance: Any) -> Any:
    """Gradient of x1 [B, P, D] from that of the distances [B, P, R] to x2 [B, R, D]."""
    import torch

    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    slopes = _slopes(difference, distance.unsqueeze(-1), p)
    # A product with the slopes sums over R in full precision.
    return torch.matmul(grad.unsqueeze(-2), slopes).squeeze(-2)


def pdist_backward(grad: Any, x: Any, p: float, distance: Any) -> Any:
    """Gradient of x [N, D] from that of the N (N - 1) / 2 distances."""
    import torch

    count = x.shape[0]
    if count < 2:
        return torch.zeros_like(x)
    row = torch.arange(count, device=x.device).unsqueeze(1)
    column = torch.arange(count, device=x.device).unsqueeze(0)
    low, high = torch.minimum(row, column), torch.maximum(row, column)
    # Pairs are listed row by row; in front of row i stand i (2 N - i - 1) / 2 of them.
    place = torch.ops.aten.div.Tensor_mode(low * (2 * count - 1 - low), 2, rounding_mode="trunc")
    place = place + high - low - 1
    same = row == column
    place = torch.where(same, number(0, place), place)
    square = torch.where(
        same, number(0, grad), torch.ops.aten.index.Tensor(grad.contiguous(), [place])
    )
    far = torch.where(same, number(0, distance), torch.ops.aten.index.Tensor(distance, [place]))
    return cdist_backward(square, x, x, p, far)


_FORMULA = (
    "gx[i] = sum_j g[i, j] sign(d) |d|^(p-1) / dist^(p-1) with d = x[i] - y[j], 0 where dist = 0; "
    "p = 1: sign(d); p = inf: sign(d) where |d| = dist"
)

REWRITES = (
    Rewrite(
        name="cdist_backward",
        op="aten._cdist_backward.default",
        formula=_FORMULA,
        source="derivative of the p-norm; torch.cdist",
        decompose=cdist_backward,
        memory="all differences: batch x P x R x D",
    ),
    Rewrite(
        name="pdist_backward",
        op="aten._pdist_backward.default",
        formula=_FORMULA,
        source="derivative of the p-norm; torch.pdist",
        decompose=pdist_backward,
        memory="all differences: N x N x D",
    ),
)
