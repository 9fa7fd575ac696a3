"""Adaptive max pooling in 2 and 3 dims, and its backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.parts import leading, scatter_planes
from graphcheck.rewrite.windows import adaptive_bounds

__all__ = ["REWRITES"]


def _forward(dims: int) -> Callable[[Any, Any], Any]:
    def decompose(x: Any, output_size: Any) -> Any:
        """x: [(N,) C, *inputs]; indices count within the last dims."""
        import torch

        inputs = list(x.shape[-dims:])
        outputs = list(output_size)
        if all(n % o == 0 for n, o in zip(inputs, outputs, strict=True)):
            kernel = [n // o for n, o in zip(inputs, outputs, strict=True)]
            if dims == 2:
                return torch.ops.aten.max_pool2d_with_indices.default(x, kernel, kernel)
            # Imported here: a rewrite built on its neighbour.
            from graphcheck.rewrite.ops.max_pool3d import forward

            return forward(x, kernel, kernel)
        return _gathered(x, inputs, outputs)

    return decompose


def _gathered(x: Any, inputs: list[Any], outputs: list[Any]) -> Any:
    """Copies every window to the longest length, the last element of a short one repeated: the
    first maximum stays the first."""
    import torch

    dims = len(inputs)
    lead = leading(x, dims)
    taken = x.reshape([lead, *inputs])
    longest = []
    first = []
    for index, (n, o) in enumerate(zip(inputs, outputs, strict=True)):
        reach = max(-(-(i + 1) * n // o) - i * n // o for i in range(o))
        start, end = adaptive_bounds(n, o, torch.int64)
        rows = start.reshape(o, 1) + torch.arange(reach, dtype=torch.int64).reshape(1, reach)
        rows = torch.minimum(rows, end.reshape(o, 1) - 1)
        taken = torch.ops.aten.index_select.default(taken, 1 + index, rows.reshape(-1))
        longest.append(reach)
        shape = [1] * (2 * dims)
        shape[index] = o
        shape[dims + index] = reach
        first.append(rows.reshape(shape))
    apart = [part for o, reach in zip(outputs, longest, strict=True) for part in (o, reach)]
    order = [0, *range(1, 2 * dims, 2), *range(2, 2 * dims + 1, 2)]
    size = 1
    for reach in longest:
        size = size * reach
    windows = taken.reshape([lead, *apart]).permute(order).reshape([lead, *outputs, size])
    values, local = torch.ops.aten.max.dim(windows, -1)
    place = first[0]
    for n, rows in zip(inputs[1:], first[1:], strict=True):
        place = place * n + rows
    table = place.reshape([1, *outputs, size]).expand([lead, *outputs, size])
    where = torch.ops.aten.gather.default(table, -1, local.unsqueeze(-1)).squeeze(-1)
    shape = [*x.shape[: x.dim() - dims], *outputs]
    return values.reshape(shape), where.reshape(shape)


def _backward(dims: int) -> Callable[[Any, Any, Any], Any]:
    def decompose(grad: Any, x: Any, indices: Any) -> Any:
        return scatter_planes(grad, x, indices, dims)

    return decompose


REWRITES = tuple(
    rewrite
    for dims in (2, 3)
    for rewrite in (
        Rewrite(
            name=f"adaptive_max_pool{dims}d_windows",
            op=f"aten.adaptive_max_pool{dims}d.default",
            formula="y[o] = max of x[i], floor(o n / out) <= i < ceil((o + 1) n / out) per dim; a "
            "plain max pooling where out divides n",
            source="definition of adaptive pooling in the documentation of torch",
            decompose=_forward(dims),
            memory="where out does not divide n: all windows side by side, and an index for each "
            "of their elements",
        ),
        Rewrite(
            name=f"adaptive_max_pool{dims}d_backward_scatter",
            op=f"aten.adaptive_max_pool{dims}d_backward.default",
            formula="grad_input[p] = sum over the outputs o with indices[o] = p of grad[o]",
            source="definition of the gradient of max, indices as returned by the forward op",
            decompose=_backward(dims),
            memory="one zero tensor of the size of the input",
        ),
    )
)
