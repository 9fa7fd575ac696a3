"""Backward of an embedding, with gradients scaled by frequency on request."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import number, widened

__all__ = ["REWRITES", "embedding_dense_backward"]


def embedding_dense_backward(
    grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    """Gradient of the table, [num_weights, D]."""
    import torch

    width = grad.shape[-1]
    rows = widened(grad).reshape(-1, width)
    places = indices.reshape(-1).to(torch.int64)
    if scale_grad_by_freq:
        ones = torch.full([places.shape[0]], 1, dtype=rows.dtype, device=rows.device)
        empty = torch.full([num_weights], 0, dtype=rows.dtype, device=rows.device)
        frequency = torch.ops.aten.index_put.default(empty, [places], ones, True)
        rows = rows / torch.ops.aten.index.Tensor(frequency, [places]).unsqueeze(1)
    if padding_idx >= 0:
        rows = torch.where((places == padding_idx).unsqueeze(1), number(0, rows), rows)
    table = torch.full([num_weights, width], 0, dtype=rows.dtype, device=rows.device)
    return torch.ops.aten.index_put.default(table, [places], rows, True).to(grad.dtype)


REWRITES = (
    Rewrite(
        name="embedding_backward",
        op="aten.embedding_dense_backward.default",
        formula="gw[index(i)] += g[i], divided by the frequency of index(i) on request; "
        "padding gets nothing",
        source="torch.nn.Embedding",
        decompose=embedding_dense_backward,
        remark="half precision is summed in float32",
    ),
)
