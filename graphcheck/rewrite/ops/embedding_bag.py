"""Bags of embeddings: sums, means and maxima of rows, forward and backward."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import number, operator, results_unseen, widened

__all__ = ["REWRITES", "backward", "backward_of_weights", "forward"]

_SUM, _MEAN, _MAX = 0, 1, 2


def _starts(offsets: Any, include_last_offset: bool) -> Any:
    """Where each bag starts, int64 [B]."""
    import torch

    offsets = offsets.to(torch.int64)
    return offsets[:-1] if include_last_offset else offsets


def _bag_of_each(indices: Any, starts: Any) -> Any:
    """The bag every index belongs to, int64 [N]: the number of bags begun, less one."""
    import torch

    places = torch.arange(indices.shape[0], device=indices.device).unsqueeze(1)
    begun = (places >= starts.unsqueeze(0)).to(torch.float32)
    ones = torch.full([starts.shape[0], 1], 1, dtype=torch.float32, device=indices.device)
    return torch.mm(begun, ones).squeeze(1).to(torch.int64) - 1


def _counted(indices: Any, padding_idx: int, dtype: Any) -> Any:
    """1 for an index that counts, 0 for padding; [N]."""
    import torch

    if padding_idx < 0:
        return torch.full([indices.shape[0]], 1, dtype=dtype, device=indices.device)
    return (indices != padding_idx).to(dtype)


def _added(rows: Any, places: Any, values: Any) -> Any:
    """Zeros of `rows` rows with values[i] added to row places[i]."""
    import torch

    shape = [rows, *values.shape[1:]]
    zeros = torch.full(shape, 0, dtype=values.dtype, device=values.device)
    return torch.ops.aten.index_put.default(zeros, [places], values, True)


def forward(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """(result [B, D], bag of each index [N], counted indices of each bag, rows of the maxima).

    The op's own kernels leave the last three empty, zero or without meaning where the mode does
    not need them. Where their shape is not that of the real thing, they are zeros here.
    """
    import torch

    expected = results_unseen(
        operator("aten._embedding_bag.default"),
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )
    indices = indices.reshape(-1)
    starts = _starts(offsets, include_last_offset)
    bags = starts.shape[0]
    bag = _bag_of_each(indices, starts)
    places = indices.to(torch.int64)
    rows = torch.ops.aten.embedding.default(widened(weight), places)
    counted = _counted(indices, padding_idx, rows.dtype)
    sizes = _added(bags, bag, counted)
    if mode == _MAX:
        result, maxima = _maxima(rows, places, bag, counted, bags)
    else:
        if padding_idx >= 0:
            rows = torch.where((counted == 0).unsqueeze(1), number(0, rows), rows)
        if per_sample_weights is not None:
            rows = rows * widened(per_sample_weights).reshape(-1).unsqueeze(1)
        result = _added(bags, bag, rows)
        if mode == _MEAN:
            result = result / torch.ops.aten.clamp.default(sizes, 1).unsqueeze(1)
        maxima = torch.full([0], 0, dtype=indices.dtype, device=indices.device)
    return result.to(weight.dtype), *(
        value.to(like.dtype)
        if value.shape == like.shape
        else torch.full(like.shape, 0, dtype=like.dtype, device=weight.device)
        for value, like in zip((bag, sizes, maxima), expected[1:], strict=True)
    )


def _maxima(rows: Any, places: Any, bag: Any, counted: Any, bags: int) -> tuple[Any, Any]:
    """Maxima [B, D] of each bag and the table rows they are from; zeros for an empty bag.

    Of equal maxima the first counts.
    """
    import torch

    own = torch.arange(bags, device=bag.device).unsqueeze(1) == bag.unsqueeze(0)
    own = torch.logical_and(own, (counted != 0).unsqueeze(0)).unsqueeze(2)
    candidates = torch.where(own, rows.unsqueeze(0), number(float("-inf"), rows))
    values, positions = torch.ops.aten.max.dim(candidates, 1)
    positions = positions.reshape(-1)
    maxima = torch.ops.aten.index.Tensor(places, [positions]).reshape(values.shape)
    empty = torch.logical_not(torch.ops.aten.any.dim(own, 1))
    return (
        torch.where(empty, number(0, values), values),
        torch.where(empty, number(0, maxima), maxima),
    )


def backward(
    grad: Any,
    indices: Any,
    offsets: Any,
    offset2bag: Any,
    bag_size: Any,
    maximum_indices: Any,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Any,
    padding_idx: int = -1,
) -> Any:
    """Gradient of the table, [num_weights, D].

    For sum and mean the bags are worked out from the offsets again: the forward op may leave
    `offset2bag` and `bag_size` empty.
    """
    import torch

    g = widened(grad)
    if mode == _MAX:
        return _backward_of_max(g, indices, offsets, maximum_indices, num_weights, padding_idx).to(
            grad.dtype
        )
    places = indices.reshape(-1).to(torch.int64)
    # With a last offset there is one bag less than offsets.
    starts = _starts(offsets, grad.shape[0] != offsets.shape[0])
    bag = _bag_of_each(places, starts)
    counted = _counted(places, padding_idx, g.dtype)
    factor = counted
    if mode == _MEAN:
        sizes = _added(grad.shape[0], bag, counted)
        sizes = torch.ops.aten.clamp.default(sizes, 1)
        factor = factor / torch.ops.aten.index.Tensor(sizes, [bag])
    if per_sample_weights is not None:
        factor = factor * widened(per_sample_weights).reshape(-1)
    if scale_grad_by_freq:
        ones = torch.full([places.shape[0]], 1, dtype=g.dtype, device=g.device)
        frequency = _added(num_weights, places, ones)
        factor = factor / torch.ops.aten.index.Tensor(frequency, [places])
    rows = torch.ops.aten.index.Tensor(g, [bag]) * factor.unsqueeze(1)
    return _added(num_weights, places, rows).to(grad.dtype)


def _backward_of_max(
    g: Any, indices: Any, offsets: Any, maxima: Any, num_weights: int, padding_idx: int
) -> Any:
    """The gradient of an output goes to the row its maximum is from; of an empty bag nowhere."""
    import torch

    bags, width = g.shape
    starts = _starts(offsets, bags != offsets.shape[0])
    places = indices.reshape(-1)
    bag = _bag_of_each(places, starts)
    sizes = _added(bags, bag, _counted(places, padding_idx, g.dtype))
    g = torch.where((sizes == 0).unsqueeze(1), number(0, g), g)
    table = torch.full([num_weights, width], 0, dtype=g.dtype, device=g.device)
    return torch.ops.aten.scatter_add.default(table, 0, maxima.to(torch.int64), g)


def backward_of_weights(
    grad: Any,
    weight: Any,
    indices: Any,
    offsets: Any,
    offset2bag: Any,
    mode: int,
    padding_idx: int = -1,
) -> Any:
    """Gradient of the per-sample weights, [N]."""
    import torch

    places = indices.reshape(-1).to(torch.int64)
    starts = _starts(offsets, grad.shape[0] != offsets.shape[0])
    bag = _bag_of_each(places, starts)
    rows = torch.ops.aten.index.Tensor(widened(weight), [places])
    products = torch.ops.aten.index.Tensor(widened(grad), [bag]) * rows
    ones = torch.full([products.shape[1], 1], 1, dtype=products.dtype, device=products.device)
    summed = torch.mm(products, ones).squeeze(1)
    return (summed * _counted(places, padding_idx, summed.dtype)).to(grad.dtype)


_SOURCE = "torch.nn.EmbeddingBag"
_MEMORY = (
    "a table of indices x bags, and for the mode max one of bags x indices x width; "
    "nothing else grows beyond the gathered rows"
)

REWRITES = (
    *(
        Rewrite(
            name=name,
            op=op,
            formula="bag(i) = number of offsets <= i, less 1; y[b] = sum, mean or max over i with "
            "bag(i) = b of w[index(i)]; padding does not count",
            source=_SOURCE,
            decompose=forward,
            memory=_MEMORY,
        )
        for name, op in (
            ("embedding_bag", "aten._embedding_bag.default"),
            ("embedding_bag_forward_only", "aten._embedding_bag_forward_only.default"),
        )
    ),
    Rewrite(
        name="embedding_bag_backward",
        op="aten._embedding_bag_backward.default",
        formula="gw[index(i)] += g[bag(i)], divided by the size of the bag for the mean, times the "
        "sample's weight; for max only the row of the maximum gets it",
        source=_SOURCE,
        decompose=backward,
        memory="a table of indices x bags",
    ),
    Rewrite(
        name="embedding_bag_weights_backward",
        op="aten._embedding_bag_per_sample_weights_backward.default",
        formula="gs[i] = g[bag(i)] . w[index(i)], 0 for padding",
        source=_SOURCE,
        decompose=backward_of_weights,
        memory="a table of indices x bags",
    ),
)
