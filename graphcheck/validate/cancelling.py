"""Ops whose result is a small difference of larger terms that only the op itself sees.

Rounding is relative to those terms, not to the result: the logarithm of a softmax near 1 comes out
near 0, but with the digits of 1. `terms` gives the size of what cancels, for `validate.noise`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["terms"]


def _log_softmax(results: Any, x: Any, *_: Any) -> Any:
    """x - max - ln(sum of exp(x - max)), a sum of 1 and more."""
    return results[0].abs() + 1


def _log_softmax_backward(_: Any, grad: Any, output: Any, dim: int, *__: Any) -> Any:
    """g - softmax(x) * sum(g)."""
    return grad.abs() + output.exp() * grad.abs().sum(dim, keepdim=True)


def _softmax_backward(_: Any, grad: Any, output: Any, dim: int, *__: Any) -> Any:
    """y * (g - sum(g * y))."""
    return output.abs() * (grad.abs() + (grad * output).abs().sum(dim, keepdim=True))


def _tanh_backward(_: Any, grad: Any, *__: Any) -> Any:
    """g * (1 - y^2)."""
    return grad.abs()


def _gelu(_: Any, x: Any, *__: Any) -> Any:
    """x * (1 + erf(x / sqrt 2)) / 2."""
    return x.abs() / 2


def _gelu_backward(_: Any, grad: Any, *__: Any) -> Any:
    """g * ((1 + erf) / 2 + x * density)."""
    return grad.abs()


_TERMS: Mapping[str, Callable[..., Any]] = {
    "_log_softmax": _log_softmax,
    "_log_softmax_backward_data": _log_softmax_backward,
    "_softmax_backward_data": _softmax_backward,
    "tanh_backward": _tanh_backward,
    "gelu": _gelu,
    "gelu_backward": _gelu_backward,
}


def terms(name: str, args: Any, results: Any) -> Any:
    """Size of the terms behind each entry of the first result, or None.

    `name` is that of the op without overload, `args` are in the order of its schema.
    """
    size = _TERMS.get(name)
    return None if size is None else size(results, *args)
