"""The windows of a max pool, unfolded: which entries they hold, which of them are the largest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphcheck.validate.ties.picks import pool_places

__all__ = ["Windows"]


@dataclass(frozen=True)
class Windows:
    """The windows of `source` [..., H, W] that a pool with the arguments `given` looks at.

    `shape` is that of the pool's output. Planes are flattened: P planes, K cells in a window, L
    windows in a plane.
    """

    source: Any
    given: dict[str, Any]
    shape: tuple[int, ...]

    @cached_property
    def cells(self) -> tuple[Any, Any]:
        """Flat index of each cell of each window, [K, L]; -1 outside of the plane. And [K, L]
        whether it is inside."""
        import torch

        height, width = self.source.shape[-2:]
        places = []
        for axis, size in ((-2, height), (-1, width)):
            places.append(pool_places(self.given, axis, size, self.shape[axis]))
        (rows, row_in), (columns, column_in) = places
        index = rows[:, None, :, None] * width + columns[None, :, None, :]
        inside = row_in[:, None, :, None] & column_in[None, :, None, :]
        count = rows.shape[0] * columns.shape[0]
        index, inside = index.reshape(count, -1), inside.reshape(count, -1)
        return torch.where(inside, index, -1), inside

    @cached_property
    def values(self) -> Any:
        """Every cell's value in float64, [P, K, L]; -inf outside of the plane."""
        import torch

        index, inside = self.cells
        flat = self.source.detach().double().flatten(-2).reshape(-1, self.plane)
        found = flat[:, index.clamp(min=0).reshape(-1)].reshape(flat.shape[0], *index.shape)
        return torch.where(inside, found, -torch.inf)

    @property
    def plane(self) -> int:
        """Cells of a plane."""
        return int(self.source.shape[-1] * self.source.shape[-2])

    @cached_property
    def largest(self) -> Any:
        """The largest value of each window, [P, 1, L]."""
        return self.values.amax(1, keepdim=True)

    @cached_property
    def tops(self) -> Any:
        """Cells that hold the largest value of their window, [P, K, L]."""
        return self.values == self.largest

    @cached_property
    def tied(self) -> Any:
        """Windows whose largest value comes more than once, [P, L]."""
        return self.tops.sum(1) > 1

    def gathered(self, plane_values: Any) -> Any:
        """Values [P, H * W] of the cells, [P, K, L]."""
        index, _ = self.cells
        return plane_values[:, index.clamp(min=0).reshape(-1)].reshape(
            plane_values.shape[0], *index.shape
        )

    def scattered(self, cell_values: Any) -> Any:
        """The sum of values [P, K, L] in the cells they belong to, of the shape of `source`."""
        import torch

        index, inside = self.cells
        spread = torch.where(inside, cell_values, 0.0).flatten(1)
        planes = torch.zeros(spread.shape[0], self.plane, dtype=spread.dtype)
        planes.index_add_(1, index.clamp(min=0).reshape(-1), spread)
        return planes.reshape(self.source.shape)

    def per_window(self, output_values: Any) -> Any:
        """A tensor of the shape of the pool's output as [P, L]."""
        return output_values.detach().double().flatten(-2).reshape(-1, self.tied.shape[-1])

    def indexed(self, gradient: Any, indices: Any) -> Any:
        """The gradient of the input when each window's goes to the index it picked."""
        import torch

        flow = self.per_window(gradient)
        planes = torch.zeros(flow.shape[0], self.plane, dtype=flow.dtype)
        planes.scatter_add_(1, indices.reshape(flow.shape), flow)
        return planes.reshape(self.source.shape)

    def split(self, gradient: Any) -> Any:
        """The gradient of the input when each window's is split equally among its largest."""
        share = self.per_window(gradient).unsqueeze(1) / self.tops.sum(1, keepdim=True)
        return self.scattered(self.tops * share)
