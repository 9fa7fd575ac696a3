"""Logarithm of the gamma function and its first two derivatives."""

from __future__ import annotations

import math
from typing import Any

from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.parts import scaled, shifted

__all__ = ["REWRITES"]

# Bernoulli numbers B_2, B_4, ... B_16.
_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
)  # fmt: skip
# From here on the series below, cut after B_16, is exact to float64's digits.
_SHIFT = 10


def _wide(x: Any) -> Any:
    import torch

    return x.to(torch.float64)


def _narrow(value: Any, x: Any) -> Any:
    import torch

    return value.to(x.dtype if x.dtype.is_floating_point else torch.get_default_dtype())


def _mirrored(x: Any) -> tuple[Any, Any]:
    """Whether x is left of 1/2, and x or there 1 - x."""
    import torch

    left = x < 0.5
    return left, torch.where(left, shifted(-x, 1.0), x)


def _sine_and_cosine(x: Any) -> tuple[Any, Any]:
    """sin(pi x) and cos(pi x), up to the sign of (-1)^n, exact zeros at whole x."""
    import torch

    turn = scaled(x - torch.round(x), math.pi)
    return torch.sin(turn), torch.cos(turn)


def _horner(square: Any, coefficients: tuple[float, ...]) -> Any:
    """c_0 + c_1 square + c_2 square^2 + ..."""
    import torch

    result = torch.full_like(square, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = shifted(result * square, coefficient)
    return result


def lgamma(x: Any) -> Any:
    """ln |gamma(x)|, computed in float64; infinite at 0, -1, -2, ..."""
    import torch

    wide = _wide(x)
    left, right = _mirrored(wide)
    # ln gamma(z) = ln gamma(z + n) - ln(z (z + 1) ... (z + n - 1)), for small z only: there the
    # product is small, and for large z nothing need be shifted.
    small = right < _SHIFT
    low = torch.where(small, right, torch.ones_like(right))
    product = low
    for step in range(1, _SHIFT):
        product = product * shifted(low, float(step))
    z = torch.where(small, shifted(low, float(_SHIFT)), right)
    inverse = torch.reciprocal(z)
    terms = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1))
    stirling = shifted(
        shifted(z, -0.5) * shifted(torch.log(z), -1.0), 0.5 * math.log(2 * math.pi) - 0.5
    )
    value = stirling + inverse * _horner(inverse * inverse, terms)
    value = torch.where(small, value - torch.log(product), value)
    sine, _ = _sine_and_cosine(wide)
    reflected = shifted(-torch.log(torch.abs(sine)), math.log(math.pi)) - value
    result = torch.where(left, reflected, value)
    endless = torch.isinf(wide)
    return _narrow(torch.where(endless, torch.abs(wide), result), x)


def digamma(x: Any) -> Any:
    """The derivative of lgamma; -inf at 0 (inf at -0), NaN at -1, -2, ..."""
    import torch

    wide = _wide(x)
    left, right = _mirrored(wide)
    less = torch.zeros_like(right)
    small = right < _SHIFT
    low = torch.where(small, right, torch.ones_like(right))
    for step in range(_SHIFT):
        less = less + torch.reciprocal(shifted(low, float(step)))
    z = torch.where(small, shifted(low, float(_SHIFT)), right)
    inverse = torch.reciprocal(z)
    square = inverse * inverse
    terms = tuple(b / (2 * k) for k, b in enumerate(_BERNOULLI, 1))
    value = torch.log(z) - scaled(inverse, 0.5) - square * _horner(square, terms)
    value = torch.where(small, value - less, value)
    sine, cosine = _sine_and_cosine(wide)
    reflected = value - scaled(cosine / sine, math.pi)
    result = torch.where(left, reflected, value)
    whole = (wide == torch.round(wide)) & left
    pole = torch.where(wide == 0, -torch.reciprocal(wide), torch.full_like(wide, float("nan")))
    return _narrow(torch.where(whole, pole, result), x)


def polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of digamma, for n = 0 and 1."""
    if n == 0:
        return digamma(x)
    return trigamma(x) if n == 1 else NotImplemented


def trigamma(x: Any) -> Any:
    """The derivative of digamma; inf at 0, -1, -2, ..."""
    import torch

    wide = _wide(x)
    left, right = _mirrored(wide)
    # As far as eager goes: six steps and three terms, which is 1e-9 of the value.
    more = torch.zeros_like(right)
    for step in range(6):
        inverse = torch.reciprocal(shifted(right, float(step)))
        more = more + inverse * inverse
    inverse = torch.reciprocal(shifted(right, 6.0))
    square = inverse * inverse
    series = inverse + scaled(square, 0.5) + inverse * square * _horner(square, _BERNOULLI[:3])
    value = more + series
    sine, _ = _sine_and_cosine(wide)
    ratio = scaled(torch.reciprocal(sine), math.pi)
    return _narrow(torch.where(left, ratio * ratio - value, value), x)


_SOURCE = (
    "NIST Digital Library of Mathematical Functions 5.5, 5.11, 5.15: recurrence, reflection, "
    "Stirling's series"
)

REWRITES = (
    Rewrite(
        name="lgamma_stirling",
        op="aten.lgamma.default",
        formula="(z - 1/2) ln z - z + ln(2 pi) / 2 + sum B_2k / (2k (2k - 1) z^(2k - 1)) at "
        "z = x + 10, minus ln(x (x + 1) ... (x + 9)); ln(pi / |sin pi x|) - lgamma(1 - x) left of "
        "1/2",
        source=_SOURCE,
        decompose=lgamma,
        exact=False,
        memory="about forty short-lived float64 tensors of the size of the input",
    ),
    Rewrite(
        name="digamma_series",
        op="aten.digamma.default",
        formula="ln z - 1 / 2z - sum B_2k / (2k z^2k) at z = x + 10, minus sum of 1 / (x + i); "
        "digamma(1 - x) - pi / tan(pi x) left of 1/2",
        source=_SOURCE,
        decompose=digamma,
        exact=False,
        memory="about forty short-lived float64 tensors of the size of the input",
    ),
    Rewrite(
        name="polygamma_series",
        op="aten.polygamma.default",
        formula="n = 1: 1/z + 1 / 2z^2 + sum B_2k / z^(2k + 1), k to 3, at z = x + 6, plus sum of "
        "1 / (x + i)^2; pi^2 / sin^2(pi x) - trigamma(1 - x) left of 1/2",
        source=_SOURCE,
        decompose=polygamma,
        exact=False,
        memory="about forty short-lived float64 tensors of the size of the input",
        remark="n = 0 and n = 1 only; n = 1 with the digits of eager, which has nine",
    ),
)
