"""Backward of masked_scatter for its source: the masked gradients, one after the other."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.parts import zeros

__all__ = ["REWRITES"]


def by_position(grad: Any, mask: Any, sizes: Any) -> Any:
    """grad and mask broadcast together; the result has `sizes`, zero behind the last True."""
    import torch

    aten = torch.ops.aten
    grad, mask = torch.broadcast_tensors(grad, mask)
    count = 1
    for size in sizes:
        count = count * size
    row = mask.reshape(-1).to(torch.int64)
    # The k-th True goes to place k; what is not asked for goes to a place that is cut off.
    places = torch.where(row > 0, aten.cumsum.default(row, 0) - 1, count)
    summed = aten.scatter_add.default(zeros([count + 1], grad.dtype), 0, places, grad.reshape(-1))
    return aten.slice.Tensor(summed, 0, 0, count).reshape(list(sizes))


REWRITES = (
    Rewrite(
        name="masked_scatter_backward_position",
        op="aten.masked_scatter_backward.default",
        formula="grad_source[number of Trues before p] = grad[p] for every p with mask[p]",
        source="adjoint of masked_scatter, which takes the source in order",
        decompose=by_position,
        memory="three integers per element of the mask",
    ),
)
