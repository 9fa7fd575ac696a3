"""nonzero by boolean indexing, whose result is in the default memory layout."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def columns(x: Any) -> Any:
    """For each dim of x the indices along it of the non-zeros, int64, in row-major order."""
    import torch

    if not x.dim():
        return NotImplemented
    mask = torch.ops.aten.ne.Scalar(x, 0)
    found = []
    for dim, size in enumerate(x.shape):
        along = [1] * x.dim()
        along[dim] = size
        places = torch.arange(size, dtype=torch.int64).view(along).expand(x.shape)
        found.append(torch.ops.aten.index.Tensor(places, [mask]))
    return found


def by_mask(x: Any) -> Any:
    """The same as the columns of one tensor [number of non-zeros, rank of x]."""
    import torch

    found = columns(x)
    return found if found is NotImplemented else torch.stack(found, 1)


REWRITES = tuple(
    Rewrite(
        name=name,
        op=op,
        formula="column d = (the index along d of every element)[x != 0]",
        source="definition; boolean indexing keeps the row-major order of elements",
        decompose=decompose,
        stage="forward",
        memory="an integer tensor of the size of the input for each of its dimensions",
        remark="the op's own result is in column-major layout, which other kernels refuse",
    )
    for name, op, decompose in (
        ("nonzero_mask", "aten.nonzero.default", by_mask),
        ("argwhere_mask", "aten.argwhere.default", by_mask),
        ("where_mask", "aten.where.default", columns),
        ("nonzero_numpy_mask", "aten.nonzero_numpy.default", columns),
    )
)
