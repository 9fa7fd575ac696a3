"""What the probes share: loading a program on the installed runtime, and measuring an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from graphcheck.advisory.probes.interface import Figures, Judgement, Load, Run

__all__ = [
    "HALF_UNITS",
    "generator",
    "half_errors",
    "judge_half",
    "judge_variance",
    "load_in_eager",
    "load_in_runtime",
    "lower",
    "lower_training",
    "relative_error",
    "start",
    "to_truth",
    "variance_error",
]

HALF_UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Largest relative error of rounding one number to the type."""

_ROUNDINGS = 4.0
"""Roundings of a result that an operation may show; one that accumulates in float needs one."""

_kept: list[Any] = []
"""Program bytes and modules must outlive the tensors that point into them."""


def lower(operation: Callable[..., Any], inputs: Sequence[Any], **config: Any) -> bytes:
    """The bytes of a program that does `operation` on inputs like these, without checks."""
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge

    class Program(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *arguments: Any) -> Any:
            return operation(*arguments)

    exported = torch.export.export(Program(), tuple(inputs), strict=False)
    edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    return bytes(edge.to_executorch(**config).buffer)


def start(program: bytes) -> Any:
    """The program as a module of the runtime's Python bindings, kept for the process's life."""
    import torch  # noqa: F401  (before any binding of the runtime)
    from executorch.extension.pybindings import portable_lib

    module = portable_lib._load_for_executorch_from_buffer(program)
    _kept.extend((program, module))
    return module


def load_in_runtime(operation: Callable[..., Any], inputs: Sequence[Any]) -> Run:
    """Lower an operation and load it in the installed runtime.

    The runs share one arena: what a run leaves in it, the next one finds.
    """
    module = start(lower(operation, inputs))
    return lambda *arguments: module.forward(list(arguments))


def load_in_eager(operation: Callable[..., Any], inputs: Sequence[Any]) -> Run:
    """The same operation in PyTorch: a healthy kernel for most probes."""

    def run(*arguments: Any) -> Sequence[Any]:
        result = operation(*arguments)
        return result if isinstance(result, (tuple, list)) else (result,)

    return run


def generator(seed: int = 0) -> Any:
    """A random generator of its own, so that a probe sees the same numbers every time."""
    import torch

    return torch.Generator().manual_seed(seed)


def relative_error(got: Any, truth: Any) -> float:
    """Largest difference over the largest entry of the truth; infinite when anything is NaN."""
    difference = float((got.double() - truth.double()).abs().max())
    scale = float(truth.double().abs().max())
    return difference / scale if math.isfinite(difference) and scale else math.inf


def to_truth(tensor: Any) -> Any:
    """Floating tensors in float64, others as they are."""
    return tensor.double() if tensor.is_floating_point() else tensor


def half_errors(
    load: Load,
    operation: Callable[..., Any],
    inputs: Callable[[Any], Sequence[Any]],
    result: int = 0,
) -> Figures:
    """Error of an operation on f16 and bf16 inputs against float64 on the very same inputs.

    `inputs` makes them for a dtype; `result` is the output looked at.
    """
    import torch

    figures: dict[str, float] = {}
    for name in HALF_UNITS:
        arguments = inputs(getattr(torch, name))
        got = load(operation, arguments)(*arguments)[result]
        truth = operation(*(to_truth(argument) for argument in arguments))
        if isinstance(truth, (tuple, list)):
            truth = truth[result]
        figures[name] = relative_error(got, truth)
    return figures


def judge_half(figures: Figures, what: str) -> Judgement:
    """Wrong when either type is off by more than a few roundings of its result."""
    wrong = any(not (figures[name] <= _ROUNDINGS * unit) for name, unit in HALF_UNITS.items())
    told = ", ".join(
        f"{figures[name]:.2g} in {name} (rounding once: {unit:.1g})"
        for name, unit in HALF_UNITS.items()
    )
    return Judgement(wrong, f"{what}: relative error {told}")


def variance_error(load: Load, operation: Callable[..., Any], shape: tuple[int, ...]) -> Figures:
    """Error of a normalisation on data of mean 100 and deviation 0.1, against float64."""
    import torch

    x = 100 + 0.1 * torch.randn(shape, generator=generator())
    got = load(operation, (x,))(x)[0]
    return {"error": relative_error(got, operation(x.double()))}


def judge_variance(figures: Figures, what: str) -> Judgement:
    """Two passes in float32 stay within 1e-4 on these data; E[x2]-E[x]2 loses all but a digit."""
    error = figures["error"]
    return Judgement(
        not (error <= 1e-3),
        f"{what} of data with mean 100, deviation 0.1: relative error {error:.2g}",
    )


def lower_training(module: Any, inputs: tuple[Any, ...], **config: Any) -> bytes:
    """The bytes of a training program (loss, gradients, parameters) of a module."""
    import torch
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
    from torch.export.experimental import _export_forward_backward

    joint = _export_forward_backward(torch.export.export(module, inputs, strict=False))
    edge = to_edge(joint, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    return bytes(edge.to_executorch(config=ExecutorchBackendConfig(**config)).buffer)
