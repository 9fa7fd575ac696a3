"""How far rounding can move each entry of one op's result: from the op, its dtype and its inputs.

Nothing here is relative to the largest entry of a tensor. With u the unit roundoff of the result's
dtype (half its machine epsilon), an entry may be off by

- nothing, where the op only moves, picks or compares values;
- `ULPS` * u * (|result| + sum of |x * df/dx| over the inputs x) for pointwise ops: a few units in
  the last place of the result, and of the inputs where the op amplifies their last places;
- `TERMS` * u * (sum of |terms| + sqrt(n) * |result|) for a sum of n terms (reductions, matrix
  products, convolutions): each of the n roundings is u times a partial sum, and they add up as a
  random walk. The sum of |terms| is the op itself in float64 on the absolute values of its inputs.
  In half types mm, bmm, sum and mean are rounded once, after a sum in float32; of other sums a few
  terms may be added up in the type itself (n counts as 1, TERMS twice), many belong in float32;
- for other ops (norms, softmax, losses) ULPS times the spread of the float64 result when every
  input moves by u of itself, with the sums inside as above.

A float64 result in a model that trains in a shorter type may have no more than float32's digits:
some kernels of the runtime give no more, and such a model has none to lose (`coarse`; it is told).

Where eager itself is off by more than that from its own replay in float64, its error is the bound.
Float64 is the judge: an entry is right when it is near eager's result or near the float64 one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphcheck.validate.cancelling import terms
from graphcheck.validate.noise import EXACT, LINEAR, lengths, op_name, unit
from graphcheck.validate.shadow_eager import Replay, widened

__all__ = ["TERMS", "ULPS", "Bounds", "is_exact"]

ULPS = 8.0
"""Of u, so four units in the last place."""
TERMS = 4.0
_SAMPLES = 8
_MORE_SAMPLES = 48

_MOVES = (
    "_copy",
    "_clone_dim_order",
    "_empty_dim_order",
    "_to_dim_order_copy",
    "slice_scatter",
    "select_scatter",
    "threshold_backward",
    "bitwise",
    "logical",
    "zeros",
    "ones",
)
_ABSOLUTE = {"elu": "self", "elu_backward": "grad_output", "softplus": "self"}
"""1 + exp(x) and the like cancel: the error is that of the sum, not of the small result. Others of
this kind are in `validate.cancelling`."""
_WIDE_SUMS = frozenset({"mm", "bmm", "mv", "dot", "sum", "mean"})
"""Sums of half types that the runtime and eager keep in float32."""
_LIST_OF_SUMS = frozenset({"max_pool2d_with_indices_backward", "scatter_reduce"})


def is_exact(target: Any) -> bool:
    """Whether the op makes no new rounded values."""
    name = op_name(target)
    return name in EXACT or name.endswith(_MOVES[0]) or name.startswith(_MOVES[1:])


@dataclass
class Bounds:
    """The rounding bounds of one instruction, worked out as far as they are needed.

    With `coarse`, float64 results are held to the digits of float32.
    """

    replay: Replay
    native: Sequence[Any]
    pointwise: bool
    coarse: bool = False

    def __post_init__(self) -> None:
        self.name = op_name(self.replay.target)
        self._exact: list[Any] | None = None
        self._size: list[Any] | None = None
        self._spread: tuple[int, list[Any]] = (0, [])

    def _as(self, dtype: Any) -> Any:
        import torch

        return torch.float32 if self.coarse and dtype == torch.float64 else dtype

    def _unit(self, dtype: Any) -> float:
        return unit(self._as(dtype))

    def first(self, index: int) -> Any:
        """A bound that is cheap, around eager's result: never wider than `full`."""
        import torch

        native = self.native[index]
        u = self._unit(native.dtype)
        if self.name not in LINEAR:
            return native.double().abs_().mul_(2 * u).add_(_floor(self._as(native.dtype)))
        size = self._terms()[index]
        if size is None:
            return torch.zeros((), dtype=torch.float64)
        return size

    def exact(self, index: int) -> Any:
        """The op in float64; eager's own result where it does not run in float64."""
        if self._exact is None:
            try:
                self._exact = self.replay.exact()
            except Exception:
                self._exact = [r if r is None else r.double() for r in self.native]
        return self._exact[index]

    def full(self, index: int, *, more: bool = False) -> Any:
        """The bound around the float64 result, in float64, of the shape of the result."""
        native, exact = self.native[index], self.exact(index)
        if self.name in LINEAR or self.name in _LIST_OF_SUMS:
            bound = self._terms()[index]
        elif self.pointwise:
            bound = self._pointwise(index)
        else:
            bound = self._other(index, more)
        return _at_least_eager(bound, native, exact)

    def _terms(self) -> list[Any]:
        """For ops that are linear in the absolute values of their inputs."""
        if self._size is None:
            totals = self.replay.exact(
                {name: _absolute(name, value) for name, value in self.replay.given.items()}
            )
            counts = self._lengths()
            self._size = []
            for native, total, count in zip(self.native, totals, counts, strict=True):
                if native is None or not native.dtype.is_floating_point:
                    self._size.append(None)
                    continue
                u = self._unit(native.dtype)
                inner = _sum_unit(self._as(native.dtype))
                terms_unit = 2 * u if inner < u else u
                rounded = 0.0
                if inner < u and self.name in _WIDE_SUMS:
                    terms_unit, rounded = inner, TERMS * u
                bound = total.abs().double().reshape(native.shape) * (TERMS * terms_unit)
                bound += native.double().abs() * rounded
                bound += native.double().abs() * (
                    TERMS * _sum_unit(self._as(native.dtype)) * math.sqrt(count)
                )
                self._size.append(bound.add_(_floor(self._as(native.dtype))))
        return self._size

    def _lengths(self) -> list[float]:
        arguments = [self.replay.given.get(a.name) for a in self.replay.target._schema.arguments]
        try:
            return lengths(self.replay.target, arguments, self.native)
        except Exception:
            return [1.0] * len(self.native)

    def _pointwise(self, index: int) -> Any:
        native, exact = self.native[index], self.exact(index)
        u = self._unit(native.dtype)
        size = exact.abs()
        for name, value in self.replay.given.items():
            if _is_floating(value):
                size = size + self._slope(name, value, index, u)
        return (size + self._cancelled(index)).mul(ULPS * u).add_(_floor(self._as(native.dtype)))

    def _slope(self, name: str, value: Any, index: int, u: float) -> Any:
        """|x * df/dx|, from the larger of two one-sided differences."""
        import torch

        exact = self.exact(index)
        found = torch.zeros_like(exact)
        for step in (u, -u):
            moved = self.replay.exact({**self.replay.given, name: value.double() * (1 + step)})
            change = (moved[index] - exact).abs_().div_(u)
            found = torch.maximum(found, torch.nan_to_num_(change, 0.0, 0.0, 0.0))
        return found

    def _other(self, index: int, more: bool) -> Any:
        import torch

        native, exact = self.native[index], self.exact(index)
        u = self._unit(native.dtype)
        samples = _MORE_SAMPLES if more else _SAMPLES
        if self._spread[0] != samples:
            self._spread = (samples, self._sample(samples, u))
        spread = self._spread[1][index]
        spread = torch.maximum(spread, spread.mean() if spread.numel() else spread)
        size = torch.nan_to_num(exact.abs(), 0.0, 0.0, 0.0)
        dims = tuple(range(1, size.dim())) or None
        if size.numel():
            root = size.square().mean(dim=dims, keepdim=True).sqrt() if dims else size.mean()
            size = size + root
        grow = max(1.0, math.sqrt(self._lengths()[index]) / 2)
        inner = max(u, _sum_unit(self._as(native.dtype)) * grow)
        bound = size.mul(ULPS * inner / 2).add_(spread, alpha=ULPS * grow)
        bound = bound + self._cancelled(index) * (ULPS * u)
        return bound.add_(_floor(self._as(native.dtype)))

    def _cancelled(self, index: int) -> Any:
        """The size of what cancels inside the op, 0 where nothing does."""
        anchor = self.replay.given.get(_ABSOLUTE.get(self.name, ""))
        if anchor is not None:
            return anchor.double().abs()
        if index > 0:
            return 0.0
        given = self.replay.given
        arguments = [widened(given.get(a.name)) for a in self.replay.target._schema.arguments]
        found = terms(self.name, arguments, [self.exact(0)])
        return 0.0 if found is None or found.shape != self.exact(0).shape else found

    def _sample(self, samples: int, u: float) -> list[Any]:
        """Root mean square change of each result when every input moves by u of itself."""
        import torch

        generator = torch.Generator().manual_seed(61)
        totals: list[Any] = [None] * len(self.native)
        for _ in range(samples):
            moved = self.replay.exact(
                {name: _moved(value, u, generator) for name, value in self.replay.given.items()}
            )
            for index, result in enumerate(moved):
                if result is None or not result.dtype.is_floating_point:
                    continue
                change = torch.nan_to_num_(result - self.exact(index), 0.0, 0.0, 0.0).square_()
                totals[index] = change if totals[index] is None else totals[index] + change
        return [None if total is None else (total / samples).sqrt_() for total in totals]


def _is_floating(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def _absolute(name: str, value: Any) -> Any:
    if _is_floating(value):
        return value.double().abs()
    if isinstance(value, list):
        return [_absolute(name, item) for item in value]
    return abs(value) if name in ("alpha", "beta") else value


def _moved(value: Any, u: float, generator: Any) -> Any:
    import torch

    if isinstance(value, list):
        return [_moved(item, u, generator) for item in value]
    if not _is_floating(value):
        return value
    signs = torch.randint(0, 2, value.shape, generator=generator, dtype=torch.int8)
    return value.double() * (1 + u * (2.0 * signs.double() - 1))


def _sum_unit(dtype: Any) -> float:
    """Of the type that sums of this dtype belong in."""
    import torch

    return unit(torch.float32) if dtype in (torch.float16, torch.bfloat16) else unit(dtype)


def _floor(dtype: Any) -> float:
    """Below this the spacing of numbers is absolute, or flushed to zero."""
    import torch

    info = torch.finfo(dtype)
    return float(info.smallest_normal) * (float(info.eps) * 2 if dtype == torch.float16 else 4.0)


def _at_least_eager(bound: Any, native: Any, exact: Any) -> Any:
    """Widened where eager itself is further from its float64 replay, by twice its excess."""
    import torch

    if bound.numel() == 0:
        return bound
    own = torch.nan_to_num_((native.double() - exact).abs_().div_(bound), 0.0, 0.0, 0.0)
    excess = float(own.max())
    return bound * (2 * excess) if excess > 1 else bound
