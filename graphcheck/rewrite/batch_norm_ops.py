"""Batch norm in training as two ops of our own, for a kernel library that has kernels for them.

The ops are functional with out variants, as lowering wants them. In eager they are the formulas of
`rewrite.ops.batch_norm`, so that a program with them can be replayed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

__all__ = ["BACKWARD", "FORWARD", "define"]

FORWARD = "graphcheck::batch_norm_training"
BACKWARD = "graphcheck::batch_norm_training_backward"

_FORWARD_ARGUMENTS = (
    "Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
    "float momentum, float eps"
)
_BACKWARD_ARGUMENTS = (
    "Tensor grad_out, Tensor input, Tensor? weight, Tensor save_mean, Tensor save_invstd"
)


def _forward(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    momentum: float,
    eps: float,
) -> Any:
    """(result, mean, 1/std, new running mean, new running variance), each row-major."""
    from graphcheck.rewrite.ops.batch_norm import functional

    results = functional(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return tuple(result.contiguous() for result in results)


def _backward(grad_out: Any, input: Any, weight: Any, save_mean: Any, save_invstd: Any) -> Any:
    """(gradient of the input, of the weight, of the bias)."""
    from graphcheck.rewrite.ops.batch_norm import backward

    results = backward(
        grad_out, input, weight, None, None, save_mean, save_invstd, True, 0.0, [True, True, True]
    )
    return tuple(result.contiguous() for result in results)


def _forward_meta(input: Any, *_: Any) -> Any:
    channels = input.shape[1]
    small = [input.new_empty([channels]) for _ in range(4)]
    return (input.new_empty(input.shape), *small)


def _backward_meta(grad_out: Any, input: Any, *_: Any) -> Any:
    channels = input.shape[1]
    return (
        input.new_empty(input.shape),
        input.new_empty([channels]),
        input.new_empty([channels]),
    )


@lru_cache(maxsize=1)
def define() -> Any:
    """Make `torch.ops.graphcheck` know the two ops. The library that is returned keeps them."""
    import torch

    library = torch.library.Library("graphcheck", "FRAGMENT")
    for name, arguments, count, eager, meta in (
        (FORWARD, _FORWARD_ARGUMENTS, 5, _forward, _forward_meta),
        (BACKWARD, _BACKWARD_ARGUMENTS, 3, _backward, _backward_meta),
    ):
        short = name.partition("::")[2]
        written = [f"Tensor({chr(ord('a') + index)}!)" for index in range(count)]
        outs = ", ".join(f"{kind} out{index}" for index, kind in enumerate(written))
        plain = ", ".join(["Tensor"] * count)
        library.define(f"{short}({arguments}) -> ({plain})")
        library.define(f"{short}.out({arguments}, *, {outs}) -> ({', '.join(written)})")
        library.impl(short, eager, "CompositeExplicitAutograd")
        library.impl(short, meta, "Meta")
        library.impl(f"{short}.out", _into(eager), "CompositeExplicitAutograd")
    return library


def _into(eager: Any) -> Any:
    def out_variant(*arguments: Any, **outs: Any) -> Any:
        results = eager(*arguments)
        for out, result in zip(outs.values(), results, strict=True):
            out.resize_(result.shape).copy_(result)
        return tuple(outs.values())

    return out_variant
