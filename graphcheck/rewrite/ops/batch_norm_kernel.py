"""Batch normalization in training by the two kernels of graphcheck's own library."""

from __future__ import annotations

from typing import Any

from graphcheck.rewrite.batch_norm_ops import BACKWARD, FORWARD, define
from graphcheck.rewrite.interface import Rewrite
from graphcheck.rewrite.numerics import operator, result_dtypes
from graphcheck.rewrite.ops.batch_norm import REWRITES as _PORTABLE

__all__ = ["REWRITES"]

_FORMULAS = {rewrite.op: rewrite for rewrite in _PORTABLE}
_FUNCTIONAL = "aten._native_batch_norm_legit_functional.default"
_BACKWARD = "aten.native_batch_norm_backward.default"


def _mixed(x: Any, *others: Any) -> bool:
    """Whether dtypes differ: the kernels take one for all."""
    return any(other is not None and other.dtype != x.dtype for other in others)


def functional(
    x: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """(result, mean, 1/std, new running mean, new running variance)."""
    import torch

    if not training or _mixed(x, weight, bias, running_mean, running_var):
        return NotImplemented
    arguments = (x, weight, bias, running_mean, running_var, training, momentum, eps)
    if any(dtype != x.dtype for dtype in result_dtypes(operator(_FUNCTIONAL), *arguments)):
        return NotImplemented
    define()
    return torch.ops.graphcheck.batch_norm_training.default(
        x, weight, bias, running_mean, running_var, momentum, eps
    )


def backward(
    grad: Any,
    x: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    output_mask: list[bool],
) -> Any:
    """(gradient of x, of weight, of bias), None where `output_mask` is false."""
    import torch

    if not train or _mixed(x, grad, weight, save_mean, save_invstd):
        return NotImplemented
    define()
    results = torch.ops.graphcheck.batch_norm_training_backward.default(
        grad, x, weight, save_mean, save_invstd
    )
    return tuple(
        result if wanted else None for result, wanted in zip(results, output_mask, strict=True)
    )


REWRITES = tuple(
    Rewrite(
        name=name,
        op=op,
        formula=_FORMULAS[op].formula,
        source=_FORMULAS[op].source,
        decompose=decompose,
        kernels=(f"{kernel}.out",),
        remark="needs graphcheck's kernel library at run time; used with --prefer patch",
    )
    for name, op, kernel, decompose in (
        ("batch_norm_training_kernel", _FUNCTIONAL, FORWARD, functional),
        ("batch_norm_backward_kernel", _BACKWARD, BACKWARD, backward),
    )
)
