"""Calls kernels on torch tensors, in a child process that has the runtime and our library."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from graphcheck.runtime.libraries import find_libraries

__all__ = ["CALLER", "INVALID_ARGUMENT", "NO_KERNEL", "Done", "Kernels", "dirty"]

CALLER = Path(__file__).parent / "caller.cpp"
_SERVER = Path(__file__).parent / "server.py"
_CODES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.bool: 11,
    torch.bfloat16: 15,
}
NO_KERNEL = -1
INVALID_ARGUMENT = 0x12


@dataclass
class Done:
    """What a call gave: the runtime's error code, the best time in seconds, and the outputs."""

    code: int
    seconds: float
    outputs: tuple[torch.Tensor, ...]


class Kernels:
    """The runtime of the installed wheel with kernel libraries beside it, in a child process."""

    def __init__(
        self, caller: Path, libraries: Sequence[Path] = (), env: Mapping[str, str] | None = None
    ) -> None:
        shared = [*find_libraries().shared[:2], *libraries, caller]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  as long as the child lives
        self._process = subprocess.Popen(
            [sys.executable, str(_SERVER), *map(str, shared)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        )

    def call(
        self,
        op: str,
        inputs: Sequence[Any],
        outputs: Sequence[torch.Tensor],
        *,
        fallback: bool = False,
        repeats: int = 1,
        clear: bool = False,
    ) -> Done:
        """Run the kernel that the runtime would choose, or (`fallback`) the one for all arguments.

        `outputs` are what its output memory holds before; `clear` makes that zeros as part of each
        run. Raises AssertionError when the child
        dies, with what it said.
        """
        request = {
            "op": op,
            "inputs": [_encoded(value) for value in inputs],
            "outputs": [_encoded(value) for value in outputs],
            "fallback": fallback,
            "repeats": repeats,
            "clear": clear,
        }
        told = self._ask(request)
        found = []
        for output, data, sizes in zip(outputs, told["outputs"], told["sizes"], strict=True):
            assert told["code"] != 0 or tuple(sizes) == tuple(output.shape), (op, sizes)
            result = torch.empty_like(output)
            if data:
                flat = torch.frombuffer(bytearray(data), dtype=output.dtype)
                result.as_strided((flat.numel(),), (1,)).copy_(flat)
            found.append(result)
        return Done(told["code"], told["seconds"], tuple(found))

    def seed(self, value: int) -> None:
        """Seed the random numbers of the last library."""
        self._ask({"seed": value})

    def said(self) -> str:
        """What the child wrote to stderr so far."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def maps(self) -> str:
        """The files that are loaded in the child."""
        return Path(f"/proc/{self._process.pid}/maps").read_text()

    def close(self) -> int:
        """End the child; returns its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(timeout=60)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            pickle.dump(request, stdin)
            stdin.flush()
            answer: dict[str, Any] = pickle.load(stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            code = self._process.wait(timeout=60)
            op = request.get("op", "seed")
            raise AssertionError(f"{op}: the child ended with {code}\n{self.said()}") from None
        return answer


def _encoded(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach()
        order = _order(value)
        flat = value.as_strided((value.numel(),), (1,))
        data = flat.contiguous().view(torch.uint8).numpy().tobytes() if value.numel() else b""
        sizes = tuple(value.shape)
        return {"dtype": _CODES[value.dtype], "sizes": sizes, "order": order, "data": data}
    if isinstance(value, (list, tuple)):
        return [_encoded(item) for item in value]
    return value


def _order(tensor: torch.Tensor) -> tuple[int, ...]:
    """Dims from the outermost to the innermost; row-major where strides of 1 leave a choice."""
    if tensor.is_contiguous():
        return tuple(range(tensor.dim()))
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return (0, 2, 3, 1)
    return tuple(sorted(range(tensor.dim()), key=lambda dim: -tensor.stride(dim)))


def dirty(*shape: int, like: torch.Tensor | None = None, dtype: Any = None) -> torch.Tensor:
    """Memory for an output, full of NaN (of what is no result where the dtype has no NaN)."""
    if like is not None:
        out = torch.empty_like(like, dtype=dtype or like.dtype)
    else:
        out = torch.empty(shape, dtype=dtype or torch.float32)
    if out.dtype == torch.bool:
        return out.fill_(True)
    return out.fill_(float("nan") if out.is_floating_point() else 99)
