"""One case for each limit of `opsets/limits`: an operation, its inputs, what the kernel may do.

`CASES` maps the id of a limit to functions that give an operation and its inputs. The inputs are
row-major; what is channels-last is made so in the program, as the oldest releases take no other
input. Limits without a case cannot be reached this way, and stay unmeasured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
Case = tuple[Callable[..., Any], tuple[Any, ...]]
LAST = torch.channels_last


def _x(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=LAST)


def _convolution(x: Any, weight: Any) -> Any:
    spatial = x.dim() - 2
    return aten.convolution(
        x, weight, None, [1] * spatial, [0] * spatial, [1] * spatial, False, [0] * spatial, 1
    )


def _backward(
    gradient: Any, x: Any, weight: Any, transposed: bool = False, mask: Any = (True, True, True)
) -> Any:
    spatial = x.dim() - 2
    channels = weight.shape[1 if transposed else 0]
    ones, zeros = [1] * spatial, [0] * spatial
    return aten.convolution_backward(
        gradient, x, weight, [channels], ones, zeros, ones, transposed, zeros, 1, list(mask)
    )


def _conv_shapes(*size: int) -> tuple[Any, Any, Any]:
    """A gradient, an input and a weight of a convolution with a kernel of 2."""
    y = _x(2, 4, *(n - 1 for n in size), seed=2)
    return y, _x(2, 3, *size), _x(4, 3, *(2 for _ in size), seed=1)


X = (2, 3, 4, 5)
CASES: dict[str, list[Callable[[], Case]]] = {
    "convolution-rank": [
        lambda: (_convolution, (_x(1, 2, 4, 4, 4), _x(3, 2, 2, 2, 2, seed=1))),
    ],
    "convolution-backward-transposed": [
        lambda: (
            lambda y, x, w: _backward(y, x, w, transposed=True),
            (_x(2, 3, 5, 6), _x(2, 4, 4, 5), _x(4, 3, 2, 2)),
        )
    ],
    "convolution-backward-rank": [lambda: (_backward, _conv_shapes(6))],
    "constant-pad-negative": [lambda: (lambda x: aten.constant_pad_nd(x, [1, -1], 0.0), (_x(*X),))],
    "too-many-dimensions": [lambda: (lambda x: x + 1.5, (_x(*[1] * 17),))],
    "log-softmax-float64": [
        lambda: (lambda x: aten._log_softmax(x, 1, False), (_x(2, 3, dtype=torch.float64),))
    ],
    "add-scalar-bool": [lambda: (lambda x: aten.add.Scalar(x, 2), (torch.tensor([True, False]),))],
    "conj-physical-real": [lambda: (lambda x: aten._conj_physical(x), (_x(2, 3),))],
    "dim-order-convolution": [
        lambda: (lambda x, w: _convolution(x, _last(w)), _conv_shapes(5, 6)[1:]),
    ],
    "dim-order-convolution-backward-mixed": [
        lambda: (lambda y, x, w: _backward(y, _last(x), w), _conv_shapes(5, 6)),
    ],
    "dim-order-mixed": [
        lambda: (lambda x, y: _last(x) + y, (_x(*X), _x(*X, seed=1))),
        lambda: (lambda x, y: _last(x) * y, (_x(*X), _x(*X, seed=1))),
        lambda: (lambda x, y: aten.where(x > 0, _last(x), y), (_x(*X), _x(*X, seed=1))),
    ],
    "dim-order-number": [lambda: (lambda x: _last(x) * 2.0, (_x(*X),))],
    "dim-order-default": [
        lambda: (lambda x: aten.repeat(_last(x), [2, 1, 1, 1]), (_x(*X),)),
        lambda: (lambda x: aten.stack([_last(x), _last(x)]), (_x(*X),)),
    ],
    "dim-order-positions": [
        lambda: (lambda x: aten.constant_pad_nd(_last(x), [1, 1], 0.0), (_x(*X),)),
    ],
    "dim-order-positions-dim": [
        lambda: (lambda x, y: aten.cat([_last(x), _last(y)], 1), (_x(*X), _x(*X, seed=1))),
    ],
    "dim-order-positions-dims": [lambda: (lambda x: aten.flip(_last(x), [1]), (_x(*X),))],
    "dim-order-ignored": [
        lambda: (lambda x, i: aten.gather(_last(x), 1, i), (_x(*X), torch.zeros(X).long())),
        lambda: (lambda x: aten.topk(_last(x), 2, 1)[0], (_x(*X),)),
    ],
    "dim-order-layer-norm": [
        lambda: (lambda x: aten.native_layer_norm(_last(x), [5], None, None, 1e-5)[0], (_x(*X),)),
    ],
    "dim-order-log-softmax": [
        lambda: (lambda x: aten._log_softmax(_last(x), 1, False), (_x(*X),)),
    ],
}
