"""Lowers exported programs and runs them in the ExecuTorch runtime, in a process of its own.

The process is started afresh (a fork of one that has used torch can hang), serves all calls of a
test session, and is started again after a crash or a time-out.
"""

from __future__ import annotations

import atexit
import multiprocessing
import traceback
from typing import Any

import torch

__all__ = ["RuntimeFailure", "run_methods"]

_SECONDS = 300


class RuntimeFailure(AssertionError):
    """A program cannot be lowered or does not run."""


def run_methods(
    jobs: dict[str, tuple[Any, list[tuple[torch.Tensor, ...]]]],
) -> dict[str, list[list[torch.Tensor]]]:
    """Lower exported programs (default IR check) to one program; run each method three times, on
    its first, second and first data set.

    Raises RuntimeFailure.
    """
    from executorch.exir import to_edge

    try:
        edge = to_edge({name: program for name, (program, _) in jobs.items()})
        buffer = bytes(edge.to_executorch().buffer)
    except Exception as error:
        raise RuntimeFailure(f"cannot be lowered: {error}") from error
    inputs = {
        name: [[_packed(one) for one in values] for values in data]
        for name, (_, data) in jobs.items()
    }
    kind, value = _RUNNER.ask((buffer, inputs))
    if kind == "error":
        raise RuntimeFailure(value)
    return {
        name: [[_unpacked(*one) for one in run] for run in runs] for name, runs in value.items()
    }


class _Runner:
    """The process that runs programs; started at the first question."""

    def __init__(self) -> None:
        self.process: Any = None
        self.pipe: Any = None

    def ask(self, question: Any) -> tuple[str, Any]:
        if self.process is None or not self.process.is_alive():
            context = multiprocessing.get_context("spawn")
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self.process.start()
            theirs.close()
            atexit.register(self.stop)
        try:
            self.pipe.send(question)
            if not self.pipe.poll(_SECONDS):
                self.stop()
                return "error", f"does not end within {_SECONDS} s"
            answer: tuple[str, Any] = self.pipe.recv()
            return answer
        except (EOFError, OSError):
            self.process.join(10)
            code = self.process.exitcode
            self.stop()
            return "error", f"the runtime died with exit code {code}"

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
        self.process = None


_RUNNER = _Runner()


def _serve(pipe: Any) -> None:
    """Answer questions until the other end closes."""
    while True:
        try:
            buffer, inputs = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(("result", _run(buffer, inputs)))
        except Exception:
            pipe.send(("error", f"does not run: {traceback.format_exc()}"))


def _run(buffer: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    from executorch.extension.pybindings import portable_lib

    module = portable_lib._load_for_executorch_from_buffer(buffer)
    results = {}
    for name, data in inputs.items():
        runs = []
        for run in range(3):
            values = [_unpacked(*one).contiguous().clone() for one in data[run % 2]]
            outputs = module.run_method(name, values)
            runs.append([_packed(one) for one in outputs if isinstance(one, torch.Tensor)])
        results[name] = runs
    return results


def _packed(value: torch.Tensor) -> tuple[Any, torch.dtype]:
    """A tensor for the pipe; numpy has no bfloat16."""
    value = value.detach().clone()
    return (
        value.view(torch.int16) if value.dtype == torch.bfloat16 else value
    ).numpy(), value.dtype


def _unpacked(array: Any, dtype: torch.dtype) -> torch.Tensor:
    value = torch.from_numpy(array)
    return value.view(dtype) if dtype == torch.bfloat16 else value
