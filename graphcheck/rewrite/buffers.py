"""Buffers that forward writes to: their initial state, and cumulative averages.

The emitter takes the state of a mutated buffer for meaningless and writes its shape alone, so a
program would start with a running variance of 0. A mark on the placeholder makes it write the data.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["cumulative_average", "initial_state_passes", "mutated_buffers"]

_MARK = "et_init_buffer"
"""Key of the placeholder's metadata that the emitter looks for (`exir/emit/_emitter.py`)."""


def mutated_buffers(program: Any) -> dict[str, str]:
    """Placeholder name to buffer name, for the buffers an exported program writes to."""
    signature = program.graph_signature
    written = set(signature.buffers_to_mutate.values())
    return {
        placeholder: buffer
        for placeholder, buffer in signature.inputs_to_buffers.items()
        if buffer in written
    }


def initial_state_passes(program: Any) -> list[Any]:
    """Passes for `ExecutorchBackendConfig.passes` that keep the initial state of mutated buffers.

    Empty if the program mutates none.
    """
    names = frozenset(mutated_buffers(program))
    if not names:
        return []

    def keep_initial_state(graph_module: Any) -> Any:
        from torch.fx.passes.infra.pass_base import PassResult

        changed = False
        for node in graph_module.graph.nodes:
            if node.op == "placeholder" and node.name in names and not node.meta.get(_MARK):
                node.meta[_MARK] = True
                changed = True
        return PassResult(graph_module, changed)

    return [keep_initial_state]


@contextlib.contextmanager
def cumulative_average() -> Iterator[None]:
    """Let batch norm with `momentum=None` be exported.

    Its forward turns the number of batches into a Python number, which no export can follow. While
    this lasts, it takes the statistics of the batch from a batch norm with momentum 1 and averages
    them with a factor that stays a tensor: the same mathematics.
    """
    from torch.nn.modules.batchnorm import _BatchNorm

    original = _BatchNorm.forward

    def forward(self: Any, x: Any) -> Any:
        cumulative = self.momentum is None and self.training and self.track_running_stats
        if not cumulative or self.num_batches_tracked is None:
            return original(self, x)
        return _cumulative_forward(self, x)

    _BatchNorm.forward = forward
    try:
        yield
    finally:
        _BatchNorm.forward = original


def _cumulative_forward(norm: Any, x: Any) -> Any:
    import torch

    norm._check_input_dim(x)
    norm.num_batches_tracked.add_(1)
    mean = torch.zeros_like(norm.running_mean)
    var = torch.zeros_like(norm.running_var)
    result = torch.nn.functional.batch_norm(
        x, mean, var, norm.weight, norm.bias, True, 1.0, norm.eps
    )
    factor = 1.0 / norm.num_batches_tracked.to(mean.dtype)
    norm.running_mean.mul_(1 - factor).add_(mean * factor)
    norm.running_var.mul_(1 - factor).add_(var * factor)
    return result
