"""put: write into the flattened tensor."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite

__all__ = ["REWRITES"]


def by_index_put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """index, source: as many elements as each other; index counts in x flattened."""
    import torch

    flat = x.reshape(-1)
    places = index.reshape(-1)
    written = torch.ops.aten.index_put.default(flat, [places], source.reshape(-1), accumulate)
    return written.reshape(x.shape)


REWRITES = (
    Rewrite(
        name="put_index_put",
        op="aten.put.default",
        formula="flat(y)[index] = source, or += source",
        source="documentation of torch.Tensor.put_",
        decompose=by_index_put,
    ),
)
