"""Lowers exported programs and runs them in the ExecuTorch runtime, in a forked child."""

from __future__ import annotations

import multiprocessing
import traceback
from typing import Any

import torch

__all__ = ["RuntimeFailure", "run_methods"]


class RuntimeFailure(AssertionError):
    """A program cannot be lowered or does not run."""


def run_methods(
    jobs: dict[str, tuple[Any, list[tuple[torch.Tensor, ...]]]],
) -> dict[str, list[list[torch.Tensor]]]:
    """Lower exported programs (default IR check) to one program; run each method three times.

    Raises RuntimeFailure.
    """
    from executorch.exir import to_edge

    try:
        edge = to_edge({name: program for name, (program, _) in jobs.items()})
        buffer = bytes(edge.to_executorch().buffer)
    except Exception as error:
        raise RuntimeFailure(f"cannot be lowered: {error}") from error
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    inputs = {name: values for name, (_, values) in jobs.items()}
    child = context.Process(target=_run_child, args=(sender, buffer, inputs))
    child.start()
    sender.close()
    outcome: dict[str, list[list[torch.Tensor]]] = {}
    failure = ""
    while True:
        try:
            kind, name, value = receiver.recv()
        except EOFError:
            break
        if kind == "error":
            failure = f"{name} does not run: {value}"
        else:
            outcome[name] = [[_unpacked(*one) for one in run] for run in value]
    child.join()
    if failure:
        raise RuntimeFailure(failure)
    if child.exitcode != 0 or len(outcome) != len(jobs):
        raise RuntimeFailure(f"the runtime died with exit code {child.exitcode}")
    return outcome


def _run_child(sender: Any, buffer: bytes, inputs: dict[str, Any]) -> None:
    from executorch.extension.pybindings import portable_lib

    module = portable_lib._load_for_executorch_from_buffer(buffer)
    for name, data in inputs.items():
        try:
            runs = []
            for run in range(3):
                values = [value.contiguous().clone() for value in data[run % 2]]
                outputs = module.run_method(name, values)
                runs.append([_packed(one) for one in outputs if isinstance(one, torch.Tensor)])
        except Exception:
            sender.send(("error", name, traceback.format_exc()))
            return
        sender.send(("result", name, runs))
    sender.close()


def _packed(value: torch.Tensor) -> tuple[Any, torch.dtype]:
    """A tensor for the pipe; numpy has no bfloat16."""
    value = value.clone()
    return (
        value.view(torch.int16) if value.dtype == torch.bfloat16 else value
    ).numpy(), value.dtype


def _unpacked(array: Any, dtype: torch.dtype) -> torch.Tensor:
    value = torch.from_numpy(array)
    return value.view(dtype) if dtype == torch.bfloat16 else value
